package main

import (
	"context"

	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/apiserver/admission"
	"flyball.dev/controlplane"
	"flyball.dev/storage"
)

// startFlyball starts this module's API server without controllers, as kube-apiserver runs without
// kube-controller-manager, and with all admission plugins that kube-apiserver has by default.
//
// Every request takes the fallback with withoutFastPath. The storage is in memory if it is nil.
func startFlyball(ctx context.Context, s storage.Store, withoutFastPath bool) (*server, *controlplane.ControlPlane, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Storage:            s,
		Listen:             "127.0.0.1:0",
		WithoutControllers: true,
		WithoutFastPath:    withoutFastPath,
		Admission: admission.Options{
			Enable: []string{admission.ServiceAccount, admission.StorageObjectInUseProtection, admission.TaintNodesByCondition, "NodeRestriction"},
		},
	})
	if err != nil {
		return nil, nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig())
	if err != nil {
		return nil, nil, err
	}
	started, err := newServer("flyball", config)
	return started, plane, err
}
