// Command certificates is an operator for Certificates: a Secret with a TLS certificate for each,
// which is renewed before it ends. Time drives it.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"

	"flyball.dev/ctrl"
	certsv1 "flyball.dev/examples/certificates/api/v1"
	"flyball.dev/examples/certificates/config"
	"flyball.dev/examples/certificates/internal/controller"
	"flyball.dev/examples/certificates/internal/issuer"
	"flyball.dev/examples/certificates/internal/tour"
	"flyball.dev/examples/internal/example"
)

func main() {
	ca, err := issuer.New(time.Now())
	if err != nil {
		fmt.Fprintln(os.Stderr, "certificates:", err)
		os.Exit(1)
	}
	newExample(ca).Main()
}

// newExample returns the example with an issuer.
func newExample(ca *issuer.Issuer) *example.Example {
	retry := 5 * time.Minute
	return &example.Example{
		Name:        "certificates",
		Does:        "It issues a TLS certificate for each Certificate; that of the sample is renewed every 10 s.",
		AddToScheme: certsv1.AddToScheme,
		Config:      config.Files,
		SetUp: func(mgr ctrl.Manager) error {
			return (&controller.CertificateReconciler{
				Client:        mgr.GetClient(),
				Scheme:        mgr.GetScheme(),
				Recorder:      mgr.GetEventRecorder("certificates"),
				Issuer:        ca,
				Clock:         clock.RealClock{},
				RetryInterval: retry,
			}).SetupWithManager(mgr)
		},
		Tour: func(w *example.World) []example.Step {
			retry = 20 * time.Millisecond
			return tour.Steps(w, ca)
		},
		Invitation: `
kubectl get certificates --watch
kubectl get secret shop-tls -o jsonpath='{.data.tls\.crt}' | base64 -d | openssl x509 -noout -dates -ext subjectAltName
kubectl patch certificate shop --type merge -p '{"spec":{"dnsNames":["shop.example.com","www.example.com"]}}'
kubectl delete secret shop-tls
kubectl events --for certificate/shop`,
	}
}
