package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/bench/fixture"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	// idleTime is how long nothing happens before memory is measured.
	idleTime = time.Minute
)

// client returns a client for built-in kinds, with protobuf.
func (s *server) client() (*kubernetes.Clientset, error) {
	config := rest.CopyConfig(s.config)
	config.ContentType = runtime.ContentTypeProtobuf
	return kubernetes.NewForConfig(config)
}

// idle prints the resident memory of a control plane that has nothing to do.
func idle(ctx context.Context, s *server, seconds int) error {
	if err := sleep(ctx, time.Duration(seconds)*time.Second); err != nil {
		return err
	}
	for _, name := range []string{"VmRSS", "RssAnon", "RssFile", "VmHWM"} {
		size, err := s.status(name)
		if err != nil {
			return err
		}
		fmt.Printf("%s %.1f MiB\n", name, float64(size)/mib)
	}
	return nil
}

// pods creates pods, in the state that controllers and a kubelet leave them in, and prints what
// each of them costs: at once, idle, and idle again after all were listed.
func pods(ctx context.Context, s *server, n int) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	before, err := s.resident()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := createPods(ctx, client, n); err != nil {
		return err
	}
	fmt.Printf("%.0f pods created a second\n", float64(n)/time.Since(began).Seconds())
	cost := func(when string) error {
		now, err := s.resident()
		if err == nil {
			fmt.Printf("%s: %.2f KiB of resident memory a pod\n", when, float64(now-before)/float64(n)/kib)
		}
		return err
	}
	if err := cost("at once"); err != nil {
		return err
	}
	if err := sleep(ctx, idleTime); err != nil {
		return err
	}
	if err := cost("idle"); err != nil {
		return err
	}
	for range 2 {
		began = time.Now()
		if _, err := client.CoreV1().RESTClient().Get().Resource("pods").DoRaw(ctx); err != nil {
			return err
		}
		fmt.Printf("%d pods listed in %v\n", n, time.Since(began).Round(time.Millisecond))
	}
	if err := cost("listed"); err != nil {
		return err
	}
	if err := sleep(ctx, idleTime); err != nil {
		return err
	}
	if err := cost("idle again"); err != nil {
		return err
	}
	if s.out != nil {
		heap, err := s.heap()
		if err == nil {
			fmt.Printf("live heap: %.1f MiB\n", float64(heap)/mib)
		}
		return err
	}
	return nil
}

// createPods creates the namespaces of the pods, and the pods with 8 writers.
func createPods(ctx context.Context, client kubernetes.Interface, n int) error {
	if err := createNamespaces(ctx, client); err != nil {
		return err
	}
	return fixture.Parallel(ctx, n, func(ctx context.Context, i int) error { return createPod(ctx, client, i) })
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

// createPod creates the nth pod. No scheduler takes it.
func createPod(ctx context.Context, client kubernetes.Interface, n int) error {
	pod := fixture.Pod(n)
	pod.UID, pod.OwnerReferences, pod.Status = "", nil, corev1.PodStatus{}
	pod.Spec.NodeName, pod.Spec.SchedulerName = "", "nobody"
	_, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
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

// churn creates pods and deletes them, and prints the live heap before, at once and every half
// minute until two minutes have passed.
func churn(ctx context.Context, s *server, n int) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	// The first pod, so that what is made for the first request is there.
	if err := createPods(ctx, client, 1); err != nil {
		return err
	}
	remove := func(ctx context.Context, i int) error {
		key := fixture.KeyOf(i)
		return client.CoreV1().Pods(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}
	if err := remove(ctx, 0); err != nil {
		return err
	}
	start, err := s.heap()
	if err != nil {
		return err
	}
	fmt.Printf("at the start: %.1f MiB of live heap\n", float64(start)/mib)
	create := func(ctx context.Context, i int) error { return createPod(ctx, client, i) }
	if err := fixture.Parallel(ctx, n, create); err != nil {
		return err
	}
	if err := fixture.Parallel(ctx, n, remove); err != nil {
		return err
	}
	for waited := time.Duration(0); ; waited += idleTime / 2 {
		heap, err := s.heap()
		if err != nil {
			return err
		}
		resident, err := s.resident()
		if err != nil {
			return err
		}
		fmt.Printf("after %v: %+.1f MiB of live heap, %.1f MiB resident\n", waited, float64(heap-start)/mib, float64(resident)/mib)
		if waited == 2*idleTime {
			return nil
		}
		if err := sleep(ctx, idleTime/2); err != nil {
			return err
		}
	}
}
