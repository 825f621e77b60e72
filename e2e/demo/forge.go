package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
)

// forgedOwner would make kcp act as a member of system:masters, for whom every request is authorized.
const forgedOwner = `{"username":"root-boss","groups":["system:masters"]}`

func forge(ctx context.Context, d *demo) error {
	ws, err := kcptest.GetWorkspace(ctx, d.user, ofUser)
	if err != nil {
		return err
	}
	c, err := kcptest.NewClient(d.user)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{kcptest.OwnerAnnotation: forgedOwner},
	}})
	if err != nil {
		return err
	}
	d.say("User %s tries to make kcp act as an administrator in her workspace %q:", userName, ofUser)
	d.quote("PATCH " + kcptest.OwnerAnnotation + ": " + forgedOwner)
	err = c.Patch(ctx, ws.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if err := d.denied(err, `"`+userName+`"`, kcptest.OwnerAnnotation); err != nil {
		return err
	}
	now, err := kcptest.GetWorkspace(ctx, d.user, ofUser)
	if err != nil {
		return err
	}
	if was, is := ws.Annotations[kcptest.OwnerAnnotation], now.Annotations[kcptest.OwnerAnnotation]; was != is {
		return fmt.Errorf("the recorded owner changed from %s to %s", was, is)
	}

	const name, claim = "claimed", "root:default:boss"
	d.say("She creates a workspace with another identity as its creator:")
	d.quote("CREATE workspace " + name + " with " + kcptest.CreatedByAnnotation + ": " + claim)
	warned := rest.CopyConfig(d.user)
	warned.WarningHandler = warnings{d}
	ws, err = kcptest.TryCreateWorkspace(ctx, warned, name, kcptest.WithAnnotation(kcptest.CreatedByAnnotation, claim))
	if err == nil { // from kcp v0.32 on
		if stored, found := ws.Annotations[kcptest.CreatedByAnnotation]; found {
			return fmt.Errorf("the claimed creator %q is stored", stored)
		}
		return nil
	}
	if err := d.denied(err, `"`+userName+`"`, kcptest.CreatedByAnnotation); err != nil {
		return err
	}
	if _, err := kcptest.GetWorkspace(ctx, d.user, name); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the creation of workspace %q was denied, and it should not exist: %w", name, err)
	}
	return nil
}

// warnings prints warnings as kubectl does.
type warnings struct{ d *demo }

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(_ int, _, text string) { w.d.quote("Warning: " + text) }

// denied prints a denial as kubectl does, if it contains the expected text.
func (d *demo) denied(err error, parts ...string) error {
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("it was not denied: %w", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			return fmt.Errorf("the denial does not name %s: %w", part, err)
		}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	message := status.Status().Message
	if _, reason, found := strings.Cut(message, "denied request: "); found { // the denial of an admission policy
		message = reason
	}
	d.quote(fmt.Sprintf("Error from server (%s): %s", status.Status().Reason, message))
	return nil
}
