package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/examples/securestorage/internal/cloud"
	"flyball.dev/examples/securestorage/internal/cloud/cloudserver"
	"flyball.dev/examples/securestorage/internal/controller"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while a SecureStorage is created and deleted, and what when the cloud fails.
func TestLab(t *testing.T) {
	var server *cloudserver.Server
	options := controller.Options{PollInterval: 30 * time.Second, ResyncInterval: time.Minute}
	exampletest.Lab(t, newExample(cloudserver.New(), nil, "", &options), lab.Scenario{
		Begin: func() { server = cloudserver.New() },
		Invariants: []lab.Invariant{{Name: "accounts end with their SecureStorages", AtRest: true, Check: func(s *lab.State) error {
			if accounts := server.State().Accounts; len(accounts) != len(s.All("SecureStorage.storage.example.com")) {
				return fmt.Errorf("the accounts are %v", accounts)
			}
			return nil
		}}, {Name: "access to the vault ends with the SecureStorage", AtRest: true, Check: func(s *lab.State) error {
			vault, err := cloud.NewClient("http://cloud", exampletest.InProcess{Handler: server}).Vault(context.Background(), "vault")
			if err != nil || len(vault.Access) == 0 || len(s.All("SecureStorage.storage.example.com")) > 0 {
				return err
			}
			return fmt.Errorf("%v may use it", vault.Access)
		}}},
	}, setUpWith(&server, options))
}

// setUpWith returns a function that adds the controllers, with a cloud without a network.
func setUpWith(server **cloudserver.Server, options controller.Options) func(*rest.Config, ctrl.Manager) error {
	return func(cfg *rest.Config, mgr ctrl.Manager) error {
		return (&controller.SecureStorageReconciler{
			Client:   mgr.GetClient(),
			Cloud:    cloud.NewClient("http://cloud", exampletest.External(cfg, "cloud", *server)),
			Recorder: mgr.GetEventRecorder("securestorage"),
			Options:  options,
		}).SetupWithManager(mgr)
	}
}
