package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/examples/database/internal/backup"
	"flyball.dev/examples/database/internal/controller"
	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while a Database is created and deleted, and what when the backup service fails.
func TestLab(t *testing.T) {
	service := backup.New(backup.Settings{})
	exampletest.Lab(t, newExample(service), lab.Scenario{
		Begin: func() { service.DeleteVaults() },
		Rest:  5 * time.Minute,
		Invariants: []lab.Invariant{{Name: "each Database has its vault, and each vault its Database", AtRest: true, Check: func(s *lab.State) error {
			var uids []string
			for _, db := range s.All("Database.db.example.com") {
				uids = append(uids, string(db.GetUID()))
			}
			slices.Sort(uids)
			if vaults := slices.Sorted(maps.Keys(service.Vaults())); !slices.Equal(vaults, uids) {
				return fmt.Errorf("the vaults are %q, and the Databases are %q", vaults, uids)
			}
			return nil
		}}},
	}, setUpWith(service))
}

// setUpWith returns a function that adds the controllers, with a backup service without a network.
func setUpWith(service *backup.Server) func(*rest.Config, ctrl.Manager) error {
	return func(cfg *rest.Config, mgr ctrl.Manager) error {
		return (&controller.DatabaseReconciler{
			Client:         mgr.GetClient(),
			Secrets:        mgr.GetAPIReader(),
			Scheme:         mgr.GetScheme(),
			Recorder:       mgr.GetEventRecorder("database"),
			Backups:        backup.NewClient("http://backup").WithTransport(exampletest.External(cfg, "backup", service)),
			PollInterval:   30 * time.Second,
			ResyncInterval: 4 * time.Minute,
		}).SetupWithManager(mgr)
	}
}
