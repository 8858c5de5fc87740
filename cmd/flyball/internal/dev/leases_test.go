package dev

import (
	"os"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
)

func TestLeasesOfTheOperatorAreReleased(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	in, err := newInstaller(plane.Config(), &reader{})
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	holders := map[string]string{"mine": host + "_8c0cf7a5", "other": "elsewhere_8c0cf7a5", "node": host}
	for name, holder := range holders {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		if err := in.client.Create(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	if err := releaseLeases(t.Context(), in.client); err != nil {
		t.Fatal(err)
	}
	holders["mine"] = ""
	for name, want := range holders {
		lease := &coordinationv1.Lease{}
		if err := in.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, lease); err != nil {
			t.Fatal(err)
		}
		got := ""
		if lease.Spec.HolderIdentity != nil {
			got = *lease.Spec.HolderIdentity
		}
		if got != want {
			t.Errorf("the lease %s is held by %q, want %q", name, got, want)
		}
	}
}
