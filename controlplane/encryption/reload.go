package encryption

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/metrics"
)

const (
	period    = time.Minute            // how often the follower looks at the file
	maxHealth = 10 * time.Second       // how long the follower waits at least for KMS plugins to become healthy
	retry     = 100 * time.Millisecond // between two health checks
)

// A follower replaces the transformers when the configuration file has changed. It takes the place of
// DynamicEncryptionConfigContent of k8s.io/apiserver, which logs errors with the whole file, keys included.
//
//upstream:k8s.io/apiserver/pkg/server/options/encryptionconfig/controller.DynamicEncryptionConfigContent
type follower struct {
	file         string
	hash         string // of the file in force
	transformers *encryptionconfig.DynamicTransformers
}

// run looks at the file every minute until the context ends. After an error, it looks again a minute later.
func (f *follower) run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := f.update(ctx); err != nil && ctx.Err() == nil {
			metrics.RecordEncryptionConfigAutomaticReloadFailure(serverID)
			utilruntime.HandleErrorWithContext(ctx, err, "The former encryption configuration stays in force", "file", f.file)
		}
	}, period)
}

// update puts the file in force if it has changed, and its KMS plugins are healthy.
func (f *follower) update(ctx context.Context) error {
	if hash, err := encryptionconfig.GetEncryptionConfigHash(f.file); err != nil || hash == f.hash {
		return err
	}
	ctx, closeTransformers := context.WithCancel(ctx)
	config, err := read(ctx, f.file, true)
	if err == nil {
		err = healthy(ctx, config)
	}
	if err != nil || config.EncryptionFileContentHash == f.hash { // the former file may have come back
		closeTransformers()
		return err
	}
	f.transformers.Set(config.Transformers, closeTransformers, config.HealthChecks[0], config.KMSCloseGracePeriod)
	f.hash = config.EncryptionFileContentHash
	metrics.RecordEncryptionConfigAutomaticReloadSuccess(serverID, f.hash)
	return nil
}

// healthy waits until the KMS plugins of a configuration are healthy, and returns an error if they do not become so.
func healthy(ctx context.Context, config *encryptionconfig.EncryptionConfiguration) error {
	if n := len(config.HealthChecks); n != 1 {
		return fmt.Errorf("%d health checks of KMS plugins, want one for all", n)
	}
	ctx, cancel := context.WithTimeout(ctx, max(maxHealth, config.KMSCloseGracePeriod))
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, retry, true, func(ctx context.Context) (bool, error) {
		last = check(ctx, config.HealthChecks[0])
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("KMS plugins are not healthy: %w", errors.Join(last, err))
	}
	return nil
}

// check runs a health check.
func check(ctx context.Context, c healthz.HealthChecker) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return err
	}
	return c.Check(request)
}
