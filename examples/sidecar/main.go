// Command sidecar is a mutating webhook that adds a sidecar container to the Pods that ask for one.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a
// Deployment, and prints what it does. With a kubeconfig it runs against that cluster. The API
// server of the cluster must reach it at --webhook-host.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/webhook"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/sidecar/config"
	"flyball.dev/examples/sidecar/internal/tour"
	podwebhook "flyball.dev/examples/sidecar/internal/webhook"
)

func main() { sidecar.Main() }

var sidecar = &example.Example{
	Name:   "sidecar",
	Does:   "Its webhook adds a sidecar to each Pod with the label " + podwebhook.InjectLabel + "=true.",
	Config: config.Files,
	// Pods without the label never wait for the webhook, and can be created when it is down.
	Webhooks: &webhook.Install{ObjectSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{podwebhook.InjectLabel: "true"},
	}},
	SetUp: podwebhook.SetUpWithManager,
	Tour:  tour.Steps,
	Invitation: `
kubectl get pods -o custom-columns=NAME:.metadata.name,INIT:.spec.initContainers[*].image,IMAGE:.spec.containers[*].image
kubectl run plain --image=nginx:1.29
kubectl run meshed --image=nginx:1.29 --labels=` + podwebhook.InjectLabel + `=true
kubectl run refused --image=nginx:1.29 --labels=` + podwebhook.InjectLabel + `=true --annotations=` + podwebhook.PortAnnotation + `=http`,
}
