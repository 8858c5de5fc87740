package interceptor_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// A client that injects an error.
func Example() {
	ctx := context.Background()
	server, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	c, err := client.NewWithWatch(server.Config(), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	flaky := interceptor.NewClient(c, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errors.New("the network is down")
		},
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	fmt.Println(flaky.Delete(ctx, pod))

	// Output:
	// the network is down
}
