package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	etcdstorage "flyball.dev/storage/etcd"
	"flyball.dev/storage/memory"
)

// etcdCluster is the etcd cluster of a control plane. Its flags have the names that kube-apiserver gives them.
type etcdCluster struct {
	servers                   []string
	caFile, certFile, keyFile string
	compactionInterval        time.Duration
}

// add adds the flags to a command.
func (c *etcdCluster) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.servers, "etcd-servers", nil,
		"the URLs of the members of the etcd cluster that keeps all objects, such as https://10.0.0.1:2379")
	flags.StringVar(&c.caFile, "etcd-cafile", "", "the file with the certificate authorities of the etcd servers")
	flags.StringVar(&c.certFile, "etcd-certfile", "", "the file with the client certificate for etcd")
	flags.StringVar(&c.keyFile, "etcd-keyfile", "", "the file with the key of the client certificate for etcd")
	flags.DurationVar(&c.compactionInterval, "etcd-compaction-interval", 5*time.Minute,
		"the time between compactions of the history in etcd; 0 leaves compaction to others")
}

// used reports whether a cluster is given. It returns an error if there are other flags without a cluster.
func (c *etcdCluster) used() (bool, error) {
	if len(c.servers) == 0 && (c.caFile != "" || c.certFile != "" || c.keyFile != "") {
		return false, errors.New("--etcd-cafile, --etcd-certfile and --etcd-keyfile need --etcd-servers")
	}
	return len(c.servers) > 0, nil
}

// open opens the storage in the cluster.
func (c *etcdCluster) open(ctx context.Context) (*etcdstorage.Store, error) {
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	return etcdstorage.Open(ctx, etcdstorage.Options{
		Endpoints: c.servers, TLS: config, CompactionInterval: c.compactionInterval,
		Memory: memory.Options{CompressAfter: compressAfter},
		Logf:   func(format string, args ...any) { klog.Warningf(format, args...) },
	})
}

// etcdTimeout bounds the start with a cluster.
const etcdTimeout = 20 * time.Second

// tls returns the configuration of connections with TLS, or nil without files.
func (c *etcdCluster) tls() (*tls.Config, error) {
	if c.caFile == "" && c.certFile == "" && c.keyFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.caFile != "" {
		data, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cafile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("--etcd-cafile: %s has no certificate in PEM", c.caFile)
		}
	}
	if c.certFile == "" && c.keyFile == "" {
		return config, nil
	}
	certificate, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--etcd-certfile and --etcd-keyfile: %w", err)
	}
	config.Certificates = []tls.Certificate{certificate}
	return config, nil
}
