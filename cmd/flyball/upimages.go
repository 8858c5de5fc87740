package main

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/cmd/flyball/internal/images"
	"flyball.dev/cmd/flyball/internal/inpod"
	"flyball.dev/controlplane"
	"flyball.dev/internal/restclient"
)

// parseImages parses the values of the flag --image.
func parseImages(values []string) (all []images.Image, err error) {
	for _, value := range values {
		image, err := images.Parse(value)
		if err != nil {
			return nil, fmt.Errorf("--image: %w", err)
		}
		all = append(all, image)
	}
	return all, nil
}

// runImages makes the containers of images programs of this machine, until the returned function is called.
func runImages(plane *controlplane.ControlPlane, all []images.Image, stderr io.Writer) (end func(), err error) {
	if len(all) == 0 {
		return func() {}, nil
	}
	content, err := clientcmd.Load(plane.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*content, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	server, err := inpod.ServerOf(config)
	if err != nil {
		return nil, err
	}
	core, err := restclient.For(plane.Config(), nil, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	runner, err := images.NewRunner(plane.Pods(), images.Options{
		Images: all, Server: server, Kubeconfig: *content,
		PodExists: func(ctx context.Context, namespace, name string, uid types.UID) (bool, error) {
			pod := &corev1.Pod{}
			err := core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil && pod.UID == uid, err
		},
		Warn: func(why string) {
			fmt.Fprintf(stderr, "flyball: the programs of images see no volumes, and find the API server by KUBECONFIG: %s\n", why)
		},
	})
	if err != nil {
		return nil, err
	}
	return runner.Close, nil
}

// runWithImages runs a control plane and the programs of images until ctx ends or the control plane fails. The programs
// end before the control plane, so that they can release what they hold.
func runWithImages(ctx context.Context, plane *controlplane.ControlPlane, end func()) error {
	select {
	case <-ctx.Done():
	case <-plane.Done():
	}
	end()
	return plane.Stop()
}
