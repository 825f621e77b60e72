package podtest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookInterval is the interval between two lists of Jobs and Pods.
const lookInterval = 100 * time.Millisecond

// Kubelet runs the Jobs and Pods that helm creates in a namespace, each once, as a process, until it ends. Without a Kubelet, helm
// would wait for its hooks forever. With Addresses, it also runs the Deployment.
type Kubelet struct {
	// Client is that of an administrator. It reads the mounted objects and writes the status of Jobs and Pods.
	Client client.Client
	// Namespace is the namespace of the release.
	Namespace string
	// Binary is the path of warrantgate. Dir is an existing directory for its files. Nothing else writes there.
	Binary, Dir string
	// Addresses are the addresses of the process of a Deployment, by those of its container. Without them, the Deployment does not run.
	Addresses map[string]string

	mu      sync.Mutex
	outputs map[string]string
	seen    map[types.UID]bool
	serving serving
}

// Run runs Jobs and Pods until ctx ends. It returns the first error.
func (k *Kubelet) Run(ctx context.Context) error {
	k.mu.Lock()
	k.outputs, k.seen = map[string]string{}, map[types.UID]bool{}
	k.mu.Unlock()
	err := wait.PollUntilContextCancel(ctx, lookInterval, true, func(ctx context.Context) (bool, error) {
		return false, errors.Join(k.runDeployments(ctx), k.runJobs(ctx), k.runPods(ctx))
	})
	k.serving.stop()
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that it was to end is no error, nor what was under way then
	}
	return err
}

// Output is the output of the last process of a Job or Pod that has ended, "" if there is none.
func (k *Kubelet) Output(name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.outputs[name]
}

func (k *Kubelet) runJobs(ctx context.Context) error {
	jobs := &batchv1.JobList{}
	if err := k.Client.List(ctx, jobs, client.InNamespace(k.Namespace)); err != nil {
		return err
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if k.seen[job.UID] {
			continue
		}
		k.seen[job.UID] = true
		started := metav1.Now()
		failed, err := k.run(ctx, job.Name, job.Spec.Template.Spec)
		if err != nil {
			return err
		}
		job.Status = jobStatus(started, failed)
		if err := client.IgnoreNotFound(k.Client.Status().Update(ctx, job)); err != nil {
			return fmt.Errorf("status of Job %s: %w", job.Name, err)
		}
	}
	return nil
}

func (k *Kubelet) runPods(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := k.Client.List(ctx, pods, client.InNamespace(k.Namespace)); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if k.seen[pod.UID] {
			continue
		}
		k.seen[pod.UID] = true
		failed, err := k.run(ctx, pod.Name, pod.Spec)
		if err != nil {
			return err
		}
		pod.Status.Phase = corev1.PodSucceeded
		if failed {
			pod.Status.Phase = corev1.PodFailed
		}
		if err := client.IgnoreNotFound(k.Client.Status().Update(ctx, pod)); err != nil {
			return fmt.Errorf("status of Pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// run runs the only container of a pod until it ends, and returns whether it failed.
func (k *Kubelet) run(ctx context.Context, name string, pod corev1.PodSpec) (failed bool, err error) {
	dir := filepath.Join(k.Dir, name)
	if err := Mount(ctx, k.Client, k.Namespace, pod, dir); err != nil {
		return false, fmt.Errorf("mount the volumes of %s: %w", name, err)
	}
	output, err := exec.CommandContext(ctx, k.Binary, Args(pod.Containers[0], dir, nil)...).CombinedOutput()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		return false, fmt.Errorf("run %s: %w", name, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.outputs[name] = string(output)
	return err != nil, nil
}

// jobStatus is the status that the Job controller writes for a finished Job.
func jobStatus(started metav1.Time, failed bool) batchv1.JobStatus {
	now := metav1.Now()
	status := batchv1.JobStatus{StartTime: &started}
	conditions := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if failed {
		status.Failed = 1
		conditions = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
	} else {
		status.Succeeded, status.CompletionTime = 1, &now
	}
	for _, condition := range conditions {
		status.Conditions = append(status.Conditions, batchv1.JobCondition{
			Type: condition, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now,
		})
	}
	return status
}
