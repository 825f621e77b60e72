package machine_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// lookAlike returns another spelling of an ID for the same instance.
func lookAlike(random *rand.Rand, id string) string {
	letters := []byte(id)
	for i := range letters {
		if random.IntN(2) == 0 {
			letters[i] = strings.ToUpper(string(letters[i]))[0]
		}
	}
	blanks := []string{"", " ", "\t", "\n", " \r\n "}
	return blanks[random.IntN(len(blanks))] + string(letters) + []string{"", "/"}[random.IntN(2)] + blanks[random.IntN(len(blanks))]
}

// lookAlikeProviderID does the same for a provider ID.
func lookAlikeProviderID(random *rand.Rand, id string) string {
	scheme := []string{"cloudsigma://", "CloudSigma://", "CLOUDSIGMA:///", " cloudsigma:///"}[random.IntN(4)]
	return scheme + strings.TrimLeft(lookAlike(random, id), " \t\r\n")
}

// TestLookAlikesHaveTheVerdictOfTheID: for every spelling of an ID in either field, the request to the cloud is the same, and the answer
// differs only in the value that it repeats.
func TestLookAlikesHaveTheVerdictOfTheID(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var raw [16]byte
		binary.BigEndian.PutUint64(raw[:8], random.Uint64())
		binary.BigEndian.PutUint64(raw[8:], random.Uint64())
		id := uuid.UUID(raw).String()
		verdict := []ownership.Verdict{ownership.Owned, ownership.Foreign, ownership.Absent}[random.IntN(3)]
		evaluate := func(modify ...func(object)) (text string, claims []ownership.Claim) {
			w := newWorld(func(w *world) { w.answers = map[string]ownership.Answer{id: {Verdict: verdict, Response: "r"}} })
			got := send(t, w.handler(v1beta1.Enforce, v1beta1.Deny), review(t, newMachine(), newMachine(modify...)))
			_, rest, _ := strings.Cut(got.Result.Message, ofMachine) // what follows the field and its value
			return fmt.Sprint(got.Allowed, got.Result.Code, got.Result.Reason, got.AuditAnnotations, rest), w.decided
		}
		wantText, wantClaims := evaluate(instanceID(id))
		instance, provider := lookAlike(random, id), lookAlikeProviderID(random, id)
		for name, modify := range map[string][]func(object){
			fmt.Sprintf("instance ID %q", instance):                           {instanceID(instance)},
			fmt.Sprintf("provider ID %q", provider):                           {providerID(provider)},
			fmt.Sprintf("instance ID %q, provider ID %q", instance, provider): {instanceID(instance), providerID(provider)},
		} {
			text, claims := evaluate(modify...)
			if diff := cmp.Diff(wantText, text); diff != "" {
				t.Errorf("%s: answer (-want +got):\n%s", name, diff)
			}
			if diff := cmp.Diff(wantClaims, claims); diff != "" {
				t.Errorf("%s: claims (-want +got):\n%s", name, diff)
			}
		}
	}
}

// TestBothFields tries combinations of the two fields, for every owner of the instances. A field is evaluated when it changes. A provider ID
// that names the stored instance is no new claim.
func TestBothFields(t *testing.T) {
	const own, foreign, absent = "own", "foreign", "absent"
	ids := map[string]string{own: ownID, foreign: foreignID, absent: absentID, "": ""}
	reasons := map[string]string{own: "Owned", foreign: "InstanceNotOwned", absent: "InstanceNotFound", "": "NothingClaimed"}
	for instance, id := range ids {
		for provider, of := range ids {
			atOnce := reasons[instance]
			if instance == own && provider != "" || instance == "" {
				atOnce = reasons[provider]
			}
			providerLast := reasons[provider]
			if instance == provider {
				providerLast = "NothingClaimed"
			}
			scheme := ""
			if of != "" {
				scheme = "cloudsigma://"
			}
			both := newMachine(instanceID(id), providerID(scheme+of))
			for name, tc := range map[string]struct {
				old  object
				want string
			}{
				"at once":              {newMachine(), atOnce},
				"on create":            {nil, atOnce},
				"the instance ID last": {newMachine(providerID(scheme + of)), reasons[instance]},
				"the provider ID last": {newMachine(instanceID(id)), providerLast},
				"not now":              {both, "NothingClaimed"},
			} {
				t.Run(fmt.Sprintf("instance %q, provider %q, %s", instance, provider, name), func(t *testing.T) {
					got := send(t, newWorld().handler(v1beta1.Enforce, v1beta1.Deny), review(t, tc.old, both))
					allowed := tc.want == "Owned" || tc.want == "NothingClaimed"
					if got.AuditAnnotations["reason"] != tc.want || got.Allowed != allowed {
						t.Errorf("reason %s, allowed %t, want %s, %t", got.AuditAnnotations["reason"], got.Allowed, tc.want, allowed)
					}
				})
			}
		}
	}
}

// TestSpellingsOfTheStoredInstance: a provider ID that means the stored instance is no new claim. The match conditions leave out only the
// spelling of providers.
func TestSpellingsOfTheStoredInstance(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	matches := matcher(t, kinds[0].MachineKind)
	for i := range 200 {
		stored, provider := lookAlike(random, ownID), lookAlikeProviderID(random, ownID)
		if i == 0 {
			stored, provider = ownID, "cloudsigma://"+ownID
		}
		old, changed := newMachine(instanceID(stored)), newMachine(instanceID(stored), providerID(provider))
		w := newWorld()
		got := send(t, w.handler(v1beta1.Enforce, v1beta1.Deny), review(t, old, changed))
		if got.AuditAnnotations["reason"] != "NothingClaimed" || w.reads+len(w.decided) > 0 {
			t.Errorf("provider ID %q of the stored instance %q: %s after %d reads and the claims %v", provider, stored, got.AuditAnnotations["reason"], w.reads, w.decided)
		}
		if sent := matches(t, old, changed); sent && i == 0 {
			t.Errorf("provider ID %q of the stored instance %q is selected", provider, stored)
		}
	}
	for stored, provider := range map[string]string{
		foreignID: "cloudsigma://" + ownID, ownID: "openstack:///" + ownID, "": "cloudsigma://", "soon": "cloudsigma://soon",
		"00000000-0000-0000-0000-000000000000": "cloudsigma://00000000-0000-0000-0000-000000000000", ownID + "/": "cloudsigma://" + foreignID + "/" + ownID + "/",
	} {
		if !matches(t, newMachine(instanceID(stored)), newMachine(instanceID(stored), providerID(provider))) {
			t.Errorf("provider ID %q is not selected next to the stored instance %q", provider, stored)
		}
	}
}

// For every kind of write (create, PUT, patch or apply, of the object or its status), the gate gets the resulting object, and its other
// fields do not matter.
func TestTheKindOfWriteDoesNotMatter(t *testing.T) {
	ways := map[string]func(object){
		"put":   func(object) {},
		"apply": with("metadata.managedFields", []any{object{"manager": "capcs", "operation": "Apply", "fieldsV1": object{"f:status": object{}}}}),
		"kubectl apply": with("metadata.annotations", object{
			"kubectl.kubernetes.io/last-applied-configuration": `{"status":{"instanceID":"` + ownID + `"}}`,
		}),
		"patch":    with("metadata.resourceVersion", nil),
		"more":     with("spec.memory", int64(1<<30)),
		"deletion": with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z"),
	}
	for name, s := range situations() {
		t.Run(name, func(t *testing.T) {
			want := s.want.response(v1beta1.Enforce, v1beta1.Deny)
			for way, modify := range ways {
				changed := newMachine(s.changed...)
				modify(changed)
				got := send(t, newWorld(s.world...).handler(v1beta1.Enforce, v1beta1.Deny), review(t, newMachine(s.old...), changed))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: response (-want +got):\n%s", way, diff)
				}
			}
		})
	}
}
