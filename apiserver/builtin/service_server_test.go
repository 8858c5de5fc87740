package builtin_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestAllocationsAreUnique has many concurrent writers of a few services and a few node ports, and
// then checks that no two services have the same address or port.
func TestAllocationsAreUnique(t *testing.T) {
	ctx, client := serve(t)
	var wg sync.WaitGroup
	for seed := range 6 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			for range 60 {
				mutate(t, ctx, client, random)
			}
		})
	}
	wg.Wait()
	shared(t, ctx, client)
}

// mutate creates, updates or deletes one service, and accepts every error that the other writers
// can cause.
func mutate(t *testing.T, ctx context.Context, client kubernetes.Interface, random *rand.Rand) {
	services := client.CoreV1().Services("default")
	name := fmt.Sprintf("s%d", random.IntN(8))
	spec := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
	if random.IntN(2) == 0 {
		spec.Type = corev1.ServiceTypeNodePort
		spec.Ports[0].NodePort = []int32{0, 30001, 30002, 30003}[random.IntN(4)]
	}
	var err error
	switch random.IntN(5) {
	case 0, 1:
		_, err = services.Create(ctx, service(name, spec), metav1.CreateOptions{})
	case 2, 3:
		var s *corev1.Service
		if s, err = services.Get(ctx, name, metav1.GetOptions{}); err != nil {
			break
		}
		s.Spec.Type, s.Spec.Ports, s.Spec.ExternalTrafficPolicy = spec.Type, spec.Ports, ""
		if random.IntN(2) == 0 {
			s.ResourceVersion = "" // whatever it is now
		}
		_, err = services.Update(ctx, s, metav1.UpdateOptions{})
	default:
		err = services.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
		t.Errorf("%s: %v", name, err)
	}
}

func shared(t *testing.T, ctx context.Context, client kubernetes.Interface) {
	t.Helper()
	has := map[any]string{}
	claim := func(what any, name string) {
		if other, taken := has[what]; taken {
			t.Errorf("%s and %s both have %v", name, other, what)
		}
		has[what] = name
	}
	list := must[*corev1.ServiceList](t)(client.CoreV1().Services("").List(ctx, metav1.ListOptions{}))
	for _, s := range list.Items {
		claim(s.Spec.ClusterIP, s.Name)
		for _, p := range s.Spec.Ports {
			if p.NodePort != 0 {
				claim(p.NodePort, s.Name)
			}
		}
	}
}

// unclosed is a storage that outlives the control plane that uses it.
type unclosed struct{ storage.Store }

func (unclosed) Close() error { return nil }

func TestAllocationsAfterRestart(t *testing.T) {
	kept := memory.New(memory.Options{})
	defer kept.Close()
	run := func(f func(kubernetes.Interface)) {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{Storage: unclosed{kept}, WithoutControllers: true})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		client, err := kubernetes.NewForConfig(plane.Config())
		if err != nil {
			t.Fatal(err)
		}
		f(client)
	}
	var ip string
	run(func(client kubernetes.Interface) {
		ip = must[*corev1.Service](t)(client.CoreV1().Services("default").Create(t.Context(), service("first", corev1.ServiceSpec{}), metav1.CreateOptions{})).Spec.ClusterIP
	})
	run(func(client kubernetes.Interface) {
		_, err := client.CoreV1().Services("default").Create(t.Context(), service("second", corev1.ServiceSpec{ClusterIP: ip}), metav1.CreateOptions{})
		wantError(t, err, metav1.StatusReasonInvalid, "provided IP is already allocated")
		must[*corev1.Service](t)(client.CoreV1().Services("default").Create(t.Context(), service("third", corev1.ServiceSpec{}), metav1.CreateOptions{}))
	})
}
