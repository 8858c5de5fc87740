package controlplane_test

import (
	"context"
	"fmt"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
)

func Example() {
	ctx := context.Background()
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		panic(err)
	}
	defer plane.Stop()

	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		panic(err)
	}
	err = c.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"},
		Data:       map[string]string{"colour": "blue"},
	})
	fmt.Println(err)

	err = c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}})
	fmt.Println(err)
	// Output:
	// <nil>
	// configmaps "settings" already exists
}

// A client of a control plane without a socket executes a command by a WebSocket.
func ExampleControlPlane_Config_exec() {
	ctx := context.Background()
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		panic(err)
	}
	defer plane.Stop()
	config := plane.Config()
	client := kubernetes.NewForConfigOrDie(config)
	pods := client.CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	changes, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	for e := range changes.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			break
		}
	}
	changes.Stop()

	command := &corev1.PodExecOptions{Command: []string{"echo", "hello"}, Stdout: true}
	at := client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name("web").
		SubResource("exec").VersionedParams(command, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
	if err != nil {
		panic(err)
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: os.Stdout})
	fmt.Println(err)
	// Output:
	// hello
	// <nil>
}
