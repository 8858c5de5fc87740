package controller

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"flyball.dev/ctrl/log"
	mlv1 "flyball.dev/examples/mlmodel/api/v1"
)

// problems are the reasons of the condition Ready that are warnings.
var problems = []string{"NameTaken", "ReconcileFailed", "ReplicaFailure"}

// updateStatus updates the status from what was observed, if it has changed.
func (r *MLModelDeploymentReconciler) updateStatus(ctx context.Context, model *mlv1.MLModelDeployment,
	d *appsv1.Deployment, ready metav1.Condition) error {
	before := model.Status.DeepCopy()
	status := &model.Status
	status.URL = fmt.Sprintf("http://%s.%s.svc", model.Name, model.Namespace)
	status.Replicas, status.ReadyReplicas = 0, 0
	if metav1.IsControlledBy(d, model) {
		status.Replicas, status.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
	}
	status.Selector = labels.FormatLabels(labelsFor(model))
	status.ObservedGeneration = model.Generation
	ready.ObservedGeneration = model.Generation
	was := meta.FindStatusCondition(before.Conditions, ready.Type)
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(before, status) {
		return nil
	}
	if err := r.Status().Update(ctx, model); err != nil {
		return err
	}
	if was == nil || was.Reason != ready.Reason {
		log.FromContext(ctx).Info("Ready is "+string(ready.Status)+".", "because", ready.Message)
		kind := corev1.EventTypeNormal
		if slices.Contains(problems, ready.Reason) {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(model, nil, kind, ready.Reason, "Observe", "%s", ready.Message)
	}
	return nil
}

// readiness returns the condition Ready, which follows from the Deployment.
func readiness(model *mlv1.MLModelDeployment, d *appsv1.Deployment) metav1.Condition {
	want := *model.Spec.Replicas
	message := fmt.Sprintf("%d/%d servers are ready", d.Status.ReadyReplicas, want)
	switch {
	case failureOf(d) != "": // otherwise only its events would say so
		return notReady("ReplicaFailure", failureOf(d))
	case d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != want || d.Status.Replicas != want:
		return notReady("RollingOut", "the Deployment is rolling out, "+message)
	case d.Status.ReadyReplicas != want:
		return notReady("ServersNotReady", message)
	}
	return metav1.Condition{Type: mlv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "AllServersReady",
		Message: message}
}

// failureOf says why a Deployment cannot create pods, or returns "".
func failureOf(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

func notReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: mlv1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
