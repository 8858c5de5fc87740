// Package certwatcher serves a TLS certificate from two files and reloads it when they change.
//
//	watcher, err := certwatcher.New("tls.crt", "tls.key")
//	...
//	err = mgr.Add(watcher)
//	config := &tls.Config{GetCertificate: watcher.GetCertificate}
//
// The files are watched and, as in controller-runtime, read again every 10 seconds.
package certwatcher

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"

	"flyball.dev/ctrl/certwatcher/metrics"
	"flyball.dev/ctrl/log"
)

const defaultWatchInterval = 10 * time.Second

// CertWatcher holds the certificate and key of two files. While it runs, it reads them again when
// the file system reports a change, and in any case at an interval. A certificate that cannot be
// read, or does not fit its key, is logged and counted, and the previous one stays in use.
//
// It is a manager.Runnable that needs no leader election. All its methods may be called
// concurrently, except WithWatchInterval, which must be called before Start.
type CertWatcher struct {
	// RWMutex guards the fields up to callback. It is embedded because controller-runtime's is:
	// programs need not lock it.
	sync.RWMutex
	current  *tls.Certificate
	keyPEM   []byte
	pending  *tls.Certificate // to be passed to callback
	calling  bool             // whether a goroutine passes certificates to callback
	watcher  *fsnotify.Watcher
	callback func(tls.Certificate)

	reading    sync.Mutex // held by a read, so that an older one never replaces a newer one
	delivering sync.Mutex // held while callback runs

	certPath, keyPath string
	interval          time.Duration
	log               logr.Logger
}

// New reads the certificate and its key and returns a CertWatcher that holds them. The files must
// exist and fit together.
func New(certPath, keyPath string) (*CertWatcher, error) {
	cw := &CertWatcher{
		certPath: certPath,
		keyPath:  keyPath,
		interval: defaultWatchInterval,
		log:      log.Current().WithName("certwatcher").WithValues("cert", certPath, "key", keyPath),
	}
	if err := cw.ReadCertificate(); err != nil {
		return nil, err
	}
	return cw, nil
}

// WithWatchInterval sets the interval at which the files are read even if no change is reported,
// 10 seconds by default, and returns cw. It must be positive.
func (cw *CertWatcher) WithWatchInterval(interval time.Duration) *CertWatcher {
	cw.interval = interval
	return cw
}

// NeedLeaderElection is false: replicas that do not lead serve TLS as well.
func (cw *CertWatcher) NeedLeaderElection() bool { return false }

// GetCertificate returns the certificate that was read last. It is made for
// [tls.Config.GetCertificate], and never fails.
func (cw *CertWatcher) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	cw.RLock()
	defer cw.RUnlock()
	return cw.current, nil
}

// RegisterCallback calls callback with the current certificate, before it returns, and then in a
// goroutine of its own after each change. Calls never overlap; of changes that happen during a
// call, only the latest is passed on. It replaces the callback registered before, and must not be
// called by one. A nil callback removes it.
func (cw *CertWatcher) RegisterCallback(callback func(tls.Certificate)) {
	cw.delivering.Lock()
	defer cw.delivering.Unlock()
	cw.Lock()
	cw.callback, cw.pending = callback, nil
	current := cw.current
	cw.Unlock()
	if callback != nil && current != nil {
		callback(*current)
	}
}

// deliver passes pending certificates to the callback until there are none.
func (cw *CertWatcher) deliver() {
	cw.delivering.Lock()
	defer cw.delivering.Unlock()
	for {
		cw.Lock()
		cert, callback := cw.pending, cw.callback
		cw.pending = nil
		if cert == nil || callback == nil {
			cw.calling = false
			cw.Unlock()
			return
		}
		cw.Unlock()
		callback(*cert)
	}
}

// ReadCertificate reads the files. If the certificate or the key has changed, it replaces the
// current one and schedules the callback. On an error the current certificate is kept.
func (cw *CertWatcher) ReadCertificate() error {
	cw.reading.Lock()
	defer cw.reading.Unlock()
	metrics.ReadCertificateTotal.Inc()
	cert, keyPEM, err := cw.load()
	if err != nil {
		metrics.ReadCertificateErrors.Inc()
		return err
	}
	if cw.replace(cert, keyPEM) {
		cw.log.Info("Updated current TLS certificate", "notAfter", cert.Leaf.NotAfter)
	}
	return nil
}

// load reads the certificate and its key from the files.
func (cw *CertWatcher) load() (cert *tls.Certificate, keyPEM []byte, err error) {
	certPEM, err := os.ReadFile(cw.certPath)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = os.ReadFile(cw.keyPath)
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s with key %s: %w", cw.certPath, cw.keyPath, err)
	}
	if pair.Leaf == nil { // GODEBUG=x509keypairleaf=0
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, nil, fmt.Errorf("certificate %s: %w", cw.certPath, err)
		}
	}
	return &pair, keyPEM, nil
}

// replace makes cert the current certificate and reports whether it differs from the previous one,
// in any certificate of the chain or in the key.
func (cw *CertWatcher) replace(cert *tls.Certificate, keyPEM []byte) bool {
	cw.Lock()
	defer cw.Unlock()
	if cw.current != nil && bytes.Equal(cw.keyPEM, keyPEM) &&
		bytes.Equal(bytes.Join(cw.current.Certificate, nil), bytes.Join(cert.Certificate, nil)) {
		return false
	}
	cw.current, cw.keyPEM = cert, keyPEM
	if cw.callback != nil {
		cw.pending = cert
		if !cw.calling {
			cw.calling = true
			go cw.deliver()
		}
	}
	return true
}

// Start watches the files until ctx ends, and returns when nothing of the watch is left but a
// callback that has not returned. Where the file system cannot be watched, the files are read at
// the interval only, and the reason is logged.
func (cw *CertWatcher) Start(ctx context.Context) error {
	if cw.interval <= 0 {
		return fmt.Errorf("the watch interval of certificate %s must be positive, not %v", cw.certPath, cw.interval)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		cw.log.Error(err, "Certificate is read at the interval only: the file system cannot be watched")
	} else {
		stop := cw.startWatch(watcher)
		defer stop()
	}
	// A change between New and the start of the watch was not reported.
	cw.reload()

	cw.log.Info("Starting certificate poll+watcher", "interval", cw.interval)
	ticker := time.NewTicker(cw.interval)
	defer ticker.Stop()
	var logged validityLog
	for {
		logged = cw.logValidity(logged)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if watcher != nil {
				// Directories that were replaced as a whole have lost their watches.
				cw.addWatches(watcher)
			}
			cw.reload()
		}
	}
}

func (cw *CertWatcher) reload() {
	if err := cw.ReadCertificate(); err != nil {
		cw.log.Error(err, "Failed to read certificate; the previous one stays in use")
	}
}

// validity says whether a certificate is valid now.
type validity uint8

const (
	valid validity = iota
	notYetValid
	expiring // only a tenth of the time is left, which is later than the files are usually replaced
	expired
)

func validityOf(leaf *x509.Certificate, now time.Time) validity {
	switch left := leaf.NotAfter.Sub(now); {
	case left <= 0:
		return expired
	case now.Before(leaf.NotBefore):
		return notYetValid
	case left < leaf.NotAfter.Sub(leaf.NotBefore)/10:
		return expiring
	default:
		return valid
	}
}

// validityLog is the last log entry of a validity: the certificate, and its validity.
type validityLog struct {
	cert     *tls.Certificate
	validity validity
}

// logValidity logs that the current certificate is not valid yet, will expire soon or has expired:
// each once, as last says.
func (cw *CertWatcher) logValidity(last validityLog) validityLog {
	cert, _ := cw.GetCertificate(nil)
	now := validityLog{cert, validityOf(cert.Leaf, time.Now())}
	if now == last {
		return last
	}
	switch now.validity {
	case notYetValid:
		cw.log.Error(nil, "Certificate is not valid yet; clients will refuse it until then, or until its files are replaced",
			"notBefore", cert.Leaf.NotBefore)
	case expiring:
		cw.log.Info("Certificate will expire soon; clients will refuse it unless its files are replaced before",
			"notAfter", cert.Leaf.NotAfter)
	case expired:
		cw.log.Error(nil, "Certificate has expired; clients will refuse it until its files are replaced",
			"notAfter", cert.Leaf.NotAfter)
	}
	return now
}
