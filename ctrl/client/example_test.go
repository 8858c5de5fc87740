package client_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
)

// The life of an object, against a server in the same process. A program that
// talks to a cluster takes its rest.Config from the package config instead.
func Example() {
	ctx := context.Background()
	server, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	c, err := client.New(server.Config(), client.Options{})
	if err != nil {
		log.Fatal(err)
	}

	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings", Labels: map[string]string{"app": "web"}},
		Data:       map[string]string{"color": "green"},
	}
	again := settings.DeepCopy()
	fmt.Println("create:", c.Create(ctx, settings))
	fmt.Println("again:", c.Create(ctx, again))

	before := settings.DeepCopy()
	settings.Data["color"] = "blue"
	fmt.Println("patch:", c.Patch(ctx, settings, client.MergeFrom(before)))

	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{"app": "web"}); err != nil {
		log.Fatal(err)
	}
	for _, cm := range list.Items {
		fmt.Println("found:", cm.Name, cm.Data["color"])
	}

	fmt.Println("delete:", c.Delete(ctx, settings))
	err = c.Get(ctx, client.ObjectKeyFromObject(settings), settings)
	fmt.Println("gone:", err != nil && client.IgnoreNotFound(err) == nil)

	// Output:
	// create: <nil>
	// again: configmaps "settings" already exists
	// patch: <nil>
	// found: settings blue
	// delete: <nil>
	// gone: true
}

// Server-side apply sets the desired state, and preserves fields that others manage.
func ExampleWithFieldOwner() {
	ctx := context.Background()
	server, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	c, err := client.New(server.Config(), client.Options{FieldOwner: "web-operator"})
	if err != nil {
		log.Fatal(err)
	}

	mine := corev1ac.ConfigMap("settings", "default").WithData(map[string]string{"color": "green"})
	fmt.Println("mine:", c.Apply(ctx, mine))

	other := client.WithFieldOwner(c, "someone-else")
	theirs := corev1ac.ConfigMap("settings", "default").WithData(map[string]string{"size": "7"})
	fmt.Println("theirs:", other.Apply(ctx, theirs))
	fmt.Println("together:", theirs.Data)

	// Output:
	// mine: <nil>
	// theirs: <nil>
	// together: map[color:green size:7]
}
