// Package encryption encrypts the objects of a control plane in its storage, as a configuration file of kube-apiserver
// says: with keys in the file, or with a KMS plugin.
//
// It is a package of its own because the client of KMS plugins makes programs larger.
package encryption

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/metrics"
	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver"
)

// Encryption is the encryption of a control plane. Its fields are for the options of the control plane.
type Encryption struct {
	Transformers value.ResourceTransformers
	// ReadyChecks fail if a KMS plugin does not work.
	ReadyChecks []apiserver.ReadyCheck

	cancel context.CancelFunc
	reload sync.WaitGroup
}

// serverID identifies the server in the metrics of KMS plugins.
const serverID = "flyball"

// Load reads a configuration file, an EncryptionConfiguration of apiserver.config.k8s.io/v1. With reload, the encryption
// follows changes of the file: it looks at the file every minute, and goes on with the last good configuration if the
// file is invalid. The caller must close the encryption after the control plane has ended.
//
//upstream:k8s.io/apiserver/pkg/server/options.EtcdOptions.maybeApplyResourceTransformers
func Load(file string, reload bool) (*Encryption, error) {
	ctx, cancel := context.WithCancel(context.Background())
	first, closeFirst := context.WithCancel(ctx) // ends when another configuration replaces the first
	config, err := encryptionconfig.LoadEncryptionConfig(first, file, reload, serverID)
	if err != nil {
		closeFirst()
		cancel()
		return nil, fmt.Errorf("encryption configuration %s: %w", file, err)
	}
	metrics.RecordEncryptionConfigLastConfigInfo(serverID, config.EncryptionFileContentHash)
	e := &Encryption{cancel: func() { closeFirst(); cancel() }}
	if !reload {
		e.Transformers = encryptionconfig.StaticTransformers(config.Transformers)
		for _, c := range config.HealthChecks {
			e.addCheck(c)
		}
		return e, nil
	}
	dynamic := encryptionconfig.NewDynamicTransformers(config.Transformers, config.HealthChecks[0], closeFirst, config.KMSCloseGracePeriod)
	e.Transformers = dynamic
	e.addCheck(dynamic)
	follow := controller.NewDynamicEncryptionConfiguration("encryption-provider-config-automatic-reload-controller", file, dynamic,
		config.EncryptionFileContentHash, serverID)
	e.reload.Go(func() { follow.Run(ctx) })
	return e, nil
}

func (e *Encryption) addCheck(c healthz.HealthChecker) {
	e.ReadyChecks = append(e.ReadyChecks, apiserver.ReadyCheck{Name: c.Name(), Check: func() error {
		request, err := http.NewRequest(http.MethodGet, "/readyz", nil)
		if err != nil {
			return err
		}
		return c.Check(request)
	}})
}

// Close ends the connections to KMS plugins, and the reloads.
func (e *Encryption) Close() {
	e.cancel()
	e.reload.Wait()
}
