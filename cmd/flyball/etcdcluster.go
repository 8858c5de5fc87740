package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/store"
	"flyball.dev/controlplane"
	"flyball.dev/storage"
	etcdstorage "flyball.dev/storage/etcd"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/split"
)

// etcdCluster is the etcd cluster of a control plane. Its flags have the names that kube-apiserver gives them.
type etcdCluster struct {
	servers, overrides        []string
	prefix                    string
	caFile, certFile, keyFile string
	compactionInterval        time.Duration
}

// add adds the flags to a command.
func (c *etcdCluster) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.servers, "etcd-servers", nil,
		"the URLs of the members of the etcd cluster that keeps all objects, such as https://10.0.0.1:2379")
	flags.StringSliceVar(&c.overrides, "etcd-servers-overrides", nil,
		`the URLs of other etcd clusters that keep the objects of some resources, as group/resource#URL;URL, such as `+
			`"/events#https://10.0.0.4:2379;https://10.0.0.5:2379"`)
	flags.StringVar(&c.prefix, "etcd-prefix", etcdstorage.DefaultPrefix, "the prefix of the keys of all objects in etcd")
	flags.StringVar(&c.caFile, "etcd-cafile", "", "the file with the certificate authorities of the etcd servers")
	flags.StringVar(&c.certFile, "etcd-certfile", "", "the file with the client certificate for etcd")
	flags.StringVar(&c.keyFile, "etcd-keyfile", "", "the file with the key of the client certificate for etcd")
	flags.DurationVar(&c.compactionInterval, "etcd-compaction-interval", 5*time.Minute,
		"the time between compactions of the history in etcd; 0 leaves compaction to others")
}

// used reports whether a cluster is given. It returns an error if other flags do not fit.
func (c *etcdCluster) used() (bool, error) {
	certificates := c.caFile != "" || c.certFile != "" || c.keyFile != ""
	switch {
	case len(c.servers) == 0 && certificates:
		return false, errors.New("--etcd-cafile, --etcd-certfile and --etcd-keyfile need --etcd-servers")
	case len(c.servers) == 0 && c.prefix != etcdstorage.DefaultPrefix:
		return false, errors.New("--etcd-prefix needs --etcd-servers")
	case len(c.servers) == 0 && len(c.overrides) > 0:
		return false, errors.New("--etcd-servers-overrides needs --etcd-servers")
	case c.certFile != "" && c.keyFile == "":
		return false, errors.New("--etcd-certfile needs --etcd-keyfile")
	case c.keyFile != "" && c.certFile == "":
		return false, errors.New("--etcd-keyfile needs --etcd-certfile")
	case c.compactionInterval < 0:
		return false, errors.New("--etcd-compaction-interval must not be negative")
	}
	overrides, err := c.parseOverrides()
	if err != nil {
		return false, err
	}
	if certificates {
		err = refuseUnencrypted("--etcd-servers", c.servers)
		for _, o := range overrides {
			err = errors.Join(err, refuseUnencrypted("--etcd-servers-overrides", o.servers))
		}
	}
	return len(c.servers) > 0, err
}

// refuseUnencrypted returns an error if one of the servers in the value of a flag is not reached by TLS.
func refuseUnencrypted(flag string, servers []string) error {
	for _, server := range servers {
		if strings.HasPrefix(strings.ToLower(server), "http:") {
			return fmt.Errorf("%s has %s, to which the connection would not be encrypted in spite of "+
				"--etcd-cafile, --etcd-certfile or --etcd-keyfile: use https", flag, server)
		}
	}
	return nil
}

// etcdOverride is an etcd cluster of some resources.
type etcdOverride struct {
	servers []string
	paths   []string // of the resources in the store
}

// parseOverrides returns the overrides, one for each cluster.
//
//upstream:k8s.io/apiserver/pkg/server/options.ParseEtcdServersOverrides
func (c *etcdCluster) parseOverrides() (overrides []etcdOverride, err error) {
	taken := map[string]bool{}
	for _, text := range c.overrides {
		name, servers, _ := strings.Cut(text, "#")
		group, resource, _ := strings.Cut(name, "/")
		urls := strings.Split(servers, ";")
		if resource == "" || strings.ContainsAny(resource, "/#") || slices.Contains(urls, "") {
			return nil, fmt.Errorf("--etcd-servers-overrides: %q is not group/resource#URL;URL, such as /events#https://10.0.0.4:2379", text)
		}
		path, err := overriddenPath(schema.GroupResource{Group: group, Resource: resource})
		if err != nil {
			return nil, err
		}
		if taken[path] {
			return nil, fmt.Errorf("--etcd-servers-overrides has %s twice", name)
		}
		taken[path] = true
		slices.Sort(urls)
		if i := slices.IndexFunc(overrides, func(o etcdOverride) bool { return slices.Equal(o.servers, urls) }); i >= 0 {
			overrides[i].paths = append(overrides[i].paths, path)
			continue
		}
		overrides = append(overrides, etcdOverride{urls, []string{path}})
	}
	return overrides, nil
}

// overriddenPath returns the path of a resource that may have a cluster of its own. In kube-apiserver, these are the
// built-in ones too.
func overriddenPath(resource schema.GroupResource) (string, error) {
	if !slices.Contains(builtin.Stored(), resource) {
		return "", fmt.Errorf("--etcd-servers-overrides: there is no built-in resource %q in the group %q", resource.Resource, resource.Group)
	}
	return store.Path(resource), nil
}

// open opens the storage in the cluster, and in the ones of the overrides. It adds checks of the latter to the options.
func (c *etcdCluster) open(ctx context.Context, o *controlplane.Options) (storage.Store, error) {
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	prefixes, err := etcdstorage.Prefixes(c.prefix)
	if err != nil {
		return nil, fmt.Errorf("--etcd-prefix: %w", err)
	}
	overrides, err := c.parseOverrides()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	rest, err := c.openOne(ctx, c.servers, config, prefixes)
	if err != nil || len(overrides) == 0 {
		return rest, err
	}
	opened, parts := []storage.Store{rest}, []split.Override{}
	for i, override := range overrides {
		s, err := c.openOne(ctx, override.servers, config, override.prefixes(prefixes[0]))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--etcd-servers-overrides: %w", err), closeAll(opened))
		}
		opened, parts = append(opened, s), append(parts, split.Override{Paths: override.paths, Store: s})
		o.ReadyChecks = append(o.ReadyChecks, override.checks(i, s)...)
	}
	whole, err := split.New(rest, parts...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--etcd-servers-overrides: %w", err), closeAll(opened))
	}
	return whole, nil
}

func closeAll(stores []storage.Store) (err error) {
	for _, s := range stores {
		err = errors.Join(err, s.Close())
	}
	return err
}

// prefixes returns the prefixes of the resources, given the one of all objects.
func (o etcdOverride) prefixes(all etcdstorage.Prefix) (prefixes []etcdstorage.Prefix) {
	for _, path := range o.paths {
		prefixes = append(prefixes, etcdstorage.Prefix{Store: path, Cluster: all.Cluster + strings.TrimPrefix(path, all.Store)})
	}
	return prefixes
}

// checks returns the checks of the ith cluster, with kube-apiserver's names.
func (o etcdOverride) checks(i int, s storage.Store) []apiserver.ReadyCheck {
	read := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		_, err := s.Range(ctx, storage.Query{Path: o.paths[0], Limit: 1})
		return err
	}
	return []apiserver.ReadyCheck{
		{Name: fmt.Sprintf("etcd-override-%d", i), Check: read, Healthz: true},
		{Name: fmt.Sprintf("etcd-override-readiness-%d", i), Check: read},
	}
}

// healthTimeout bounds a check of a cluster, as in kube-apiserver.
const healthTimeout = 2 * time.Second

// openOne opens the storage in one cluster.
func (c *etcdCluster) openOne(ctx context.Context, servers []string, config *tls.Config, prefixes []etcdstorage.Prefix) (storage.Store, error) {
	s, err := etcdstorage.Open(ctx, etcdstorage.Options{
		Endpoints: servers, TLS: config, Prefixes: prefixes, CompactionInterval: c.compactionInterval,
		Memory: memory.Options{CompressAfter: compressAfter},
		Logf:   func(format string, args ...any) { klog.Warningf(format, args...) },
	})
	if err != nil {
		return nil, err
	}
	return s, nil
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
		var err error
		if config.RootCAs, err = readCertificates("--etcd-cafile", c.caFile); err != nil {
			return nil, err
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

// readCertificates returns the certificates in the file of a flag.
func readCertificates(flag, file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: %s has no certificate in PEM", flag, file)
	}
	return pool, nil
}
