//go:build tmpdeps

package tmpdeps

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	_ "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	_ "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "github.com/prometheus/common/expfmt"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "gomodules.xyz/jsonpatch/v2"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/kubectl/pkg/describe"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/certwatcher"
	_ "sigs.k8s.io/controller-runtime/pkg/client"
	_ "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	_ "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)
