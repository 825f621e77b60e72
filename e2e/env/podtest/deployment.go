package podtest

import (
	"context"
	"fmt"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/process"
)

// serving is the process of a Deployment. The zero value has no process.
type serving struct {
	uid        types.UID
	generation int64
	process    *process.Process
}

// stop kills the process, if it runs. A signal would make it drain its connections first, for 100 seconds by default.
func (s *serving) stop() {
	if s.process != nil {
		s.process.Kill()
	}
	*s = serving{}
}

// runDeployments runs one process for the only Deployment of the namespace, and replaces it after a change of the Deployment. The
// status reports all replicas as ready once the process is ready, because helm waits for that.
func (k *Kubelet) runDeployments(ctx context.Context) error {
	if k.Addresses == nil {
		return nil
	}
	deployments := &appsv1.DeploymentList{}
	if err := k.Client.List(ctx, deployments, client.InNamespace(k.Namespace)); err != nil {
		return err
	}
	if len(deployments.Items) == 0 {
		k.serving.stop()
		return nil
	}
	if len(deployments.Items) > 1 {
		return fmt.Errorf("there are %d Deployments in namespace %s, and addresses only for one", len(deployments.Items), k.Namespace)
	}
	deployment := &deployments.Items[0]
	if k.serving.uid == deployment.UID && k.serving.generation == deployment.Generation {
		return k.serving.process.Alive()
	}
	return k.serve(ctx, deployment)
}

// serve starts the process of a Deployment and reports it in the status. It does nothing while an object of a volume does not exist,
// as a kubelet would.
func (k *Kubelet) serve(ctx context.Context, deployment *appsv1.Deployment) error {
	pod := deployment.Spec.Template.Spec
	if len(pod.Containers[0].Env) > 0 {
		return fmt.Errorf("the container of Deployment %s has environment variables, which are not set here", deployment.Name)
	}
	dir := filepath.Join(k.Dir, fmt.Sprintf("%s-%d", deployment.Name, deployment.Generation))
	if err := Mount(ctx, k.Client, k.Namespace, pod, dir); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("mount the volumes of %s: %w", deployment.Name, err)
	}
	k.serving.stop()
	running, err := process.Start(process.Options{
		Name: deployment.Name, LogFile: filepath.Join(dir, deployment.Name+".log"), Binary: k.Binary, Args: Args(pod.Containers[0], dir, k.Addresses),
	})
	if err != nil {
		return err
	}
	k.serving = serving{uid: deployment.UID, generation: deployment.Generation, process: running}
	if err := running.WaitReady(ctx, "http://"+k.Addresses[":8081"]+"/readyz", &rest.Config{}); err != nil {
		return err
	}
	return k.reportReady(ctx, deployment)
}

// reportReady writes the status that the controllers of Deployments and ReplicaSets write when all Pods are ready.
func (k *Kubelet) reportReady(ctx context.Context, deployment *appsv1.Deployment) error {
	replicas := *deployment.Spec.Replicas
	replicaSet := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace, Name: fmt.Sprintf("%s-%d", deployment.Name, deployment.Generation), Labels: deployment.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: deployment.Spec.Selector, Template: deployment.Spec.Template},
	}
	if err := k.Client.Create(ctx, replicaSet); err != nil {
		return fmt.Errorf("ReplicaSet of Deployment %s: %w", deployment.Name, err)
	}
	replicaSet.Status = appsv1.ReplicaSetStatus{
		ObservedGeneration: replicaSet.Generation, Replicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas, FullyLabeledReplicas: replicas,
	}
	if err := k.Client.Status().Update(ctx, replicaSet); err != nil {
		return fmt.Errorf("status of ReplicaSet %s: %w", replicaSet.Name, err)
	}
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}},
	}
	if err := k.Client.Status().Update(ctx, deployment); err != nil {
		return fmt.Errorf("status of Deployment %s: %w", deployment.Name, err)
	}
	return nil
}
