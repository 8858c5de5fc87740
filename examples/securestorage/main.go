// Command securestorage is an operator for SecureStorages: a storage account in a cloud for each,
// encrypted with a key of the customer's. The cloud is an HTTP server in this process.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster.
package main

//go:generate go run flyball.dev/cmd/flyball generate

import (
	"flag"
	"fmt"
	"os"
	"time"

	"flyball.dev/ctrl"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/loopback"
	storagev1 "flyball.dev/examples/securestorage/api/v1"
	"flyball.dev/examples/securestorage/config"
	"flyball.dev/examples/securestorage/internal/cloud"
	"flyball.dev/examples/securestorage/internal/cloud/cloudserver"
	"flyball.dev/examples/securestorage/internal/controller"
	"flyball.dev/examples/securestorage/internal/tour"
)

func main() {
	server := cloudserver.New()
	url, stop, err := loopback.Serve(server)
	if err != nil {
		fmt.Fprintln(os.Stderr, "securestorage:", err)
		os.Exit(1)
	}
	newExample(server, cloud.NewClient(url, nil), url, &controller.Options{}).Main()
	_ = stop() // the process ends
}

// newExample returns the example with a cloud, a client of it, and its URL. The flags and the tour
// set the options.
func newExample(server *cloudserver.Server, client *cloud.Client, url string,
	options *controller.Options) *example.Example {
	return &example.Example{
		Name:        "securestorage",
		Does:        "It creates an encrypted storage account in the cloud for each SecureStorage.",
		AddToScheme: storagev1.AddToScheme,
		Config:      config.Files,
		Flags: func(set *flag.FlagSet) {
			set.DurationVar(&options.PollInterval, "poll-interval", 2*time.Second,
				"how often to look at the cloud while something there is awaited")
			set.DurationVar(&options.ResyncInterval, "resync-interval", 10*time.Second,
				"how often to look at the cloud when everything is as it should be")
			server.SetIdentityDelay(5 * time.Second)
			set.Func("identity-delay", "how `long` the cloud takes for the identity of an account (default 5s)",
				func(s string) error {
					delay, err := time.ParseDuration(s)
					server.SetIdentityDelay(delay)
					return err
				})
			set.Func("failure-rate", "the `probability` with which the cloud fails, such as 0.2 (default 0)",
				func(s string) error {
					rate := 0.0
					_, err := fmt.Sscan(s, &rate)
					server.SetFailureRate(rate)
					return err
				})
		},
		SetUp: func(mgr ctrl.Manager) error {
			return (&controller.SecureStorageReconciler{
				Client:   mgr.GetClient(),
				Cloud:    client,
				Recorder: mgr.GetEventRecorder("securestorage"),
				Options:  *options,
			}).SetupWithManager(mgr)
		},
		Tour: func(w *example.World) []example.Step {
			*options = controller.Options{PollInterval: 20 * time.Millisecond, ResyncInterval: 20 * time.Millisecond}
			return tour.Steps(w, server, client)
		},
		Invitation: `
kubectl get securestorages -o wide
kubectl patch securestorage archive --type merge -p '{"spec":{"key":"key-2"}}'
kubectl patch securestorage archive --subresource status --type merge -p '{"status":null}'
curl ` + url + `/vaults/vault
curl -X DELETE ` + url + `/accounts/$(kubectl get securestorage archive -o jsonpath='{.status.accountName}')
kubectl events --for securestorage/archive
kubectl delete securestorage archive`,
	}
}
