package controlplane_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
