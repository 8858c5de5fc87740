package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/bench/fixture"
)

// createPods creates the namespaces of the pods, and the pods with 8 writers.
func (s *server) createPods(ctx context.Context, client kubernetes.Interface, n int) error {
	if err := createNamespaces(ctx, client); err != nil {
		return err
	}
	return fixture.Parallel(ctx, n, func(ctx context.Context, i int) error { return s.createPod(ctx, client, i, "") })
}

// createPodsOnNodes creates the pods from one number to another, on their nodes, with 8 writers.
func (s *server) createPodsOnNodes(ctx context.Context, client kubernetes.Interface, from, to int) error {
	return fixture.Parallel(ctx, to-from, func(ctx context.Context, i int) error {
		return s.createPod(ctx, client, from+i, fixture.Node(from+i))
	})
}

// createNamespaces creates the namespaces of all pods.
func createNamespaces(ctx context.Context, client kubernetes.Interface) error {
	for i := 0; i == 0 || fixture.Namespace(i) != fixture.Namespace(0); i++ {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fixture.Namespace(i)}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := createServiceAccount(ctx, client, namespace.Name); err != nil {
			return err
		}
	}
	return nil
}

// createPod creates the nth pod, on a node if its name is given. No scheduler takes it.
func (s *server) createPod(ctx context.Context, client kubernetes.Interface, n int, node string) error {
	pod := s.pod(n)
	pod.Spec.NodeName, pod.Spec.SchedulerName = node, "nobody"
	_, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// newPod returns the nth pod, of the usual size, as it is created.
func newPod(n int) *corev1.Pod {
	pod := fixture.Pod(n)
	pod.UID, pod.OwnerReferences, pod.ManagedFields, pod.Status = "", nil, nil, corev1.PodStatus{}
	return pod
}

// smallPod returns the nth pod, with one container and little else.
func smallPod(n int) *corev1.Pod {
	key := fixture.KeyOf(n)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{fixture.AppLabel: fixture.App(n)}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example.org/app:1"}}},
	}
}

// createServiceAccount creates the service account of pods, unless a controller has.
func createServiceAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil {
		_, err = client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	}
	return err
}

// waitRunning waits until no pod is pending.
func waitRunning(ctx context.Context, client kubernetes.Interface) error {
	pending := metav1.ListOptions{FieldSelector: "status.phase=Pending", Limit: 1}
	for {
		pods, err := client.CoreV1().Pods("").List(ctx, pending)
		if err != nil || len(pods.Items) == 0 {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}
