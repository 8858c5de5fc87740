package main

import (
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"flyball.dev/storage/datadir"
	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/memory"
)

// etcdFlags lists the flags of etcd 3.6, one per line: NAME, followed by "bool" for a flag that needs no value.
//
//go:embed etcd_flags.txt
var etcdFlags string

// etcd is the stand-in for etcd. It serves etcd's API over the storage in its data directory. The stand-in for
// kube-apiserver does not use it. It runs until ctx ends and returns the exit code.
func etcd(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() { printEtcdUsage(stderr) }
	addEtcdFlags(fs)
	version := fs.Bool("version", false, "")
	if len(args) > 0 && (args[0] == "--help" || args[0] == "-help" || args[0] == "-h") {
		printEtcdUsage(stdout)
		return 0
	}
	if err := fs.Parse(args); err != nil {
		return 2
	}
	switch {
	case *version:
		fmt.Fprintf(stdout, "etcd Version: %s\nGit SHA: Flyball's stand-in\n", etcdserver.Version)
		return 0
	case fs.NArg() > 0:
		fmt.Fprintf(stderr, "etcd: %q is not supported by this stand-in\n", fs.Arg(0))
		return 1
	}
	s, err := newEtcdServer(fs)
	if err == nil {
		fmt.Fprintln(stderr, `{"level":"info","msg":"ready to serve client requests"}`) // as etcd logs it
		err = s.serve(ctx)
	}
	if err != nil {
		fmt.Fprintln(stderr, "etcd:", err)
		return 1
	}
	return 0
}

// addEtcdFlags adds the flags of etcd. It does not check their values.
func addEtcdFlags(fs *flag.FlagSet) {
	for line := range strings.Lines(etcdFlags) {
		name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind == "bool" {
			fs.Bool(name, false, "")
		} else {
			fs.String(name, "", "")
		}
	}
}

// printEtcdUsage prints the flags, one per line.
func printEtcdUsage(out io.Writer) {
	fmt.Fprint(out, "Usage:\n\n  etcd [flags]\n    A stand-in for etcd, with one member and without raft, users and roles.\n\n"+
		"Flags, of which all but --name, --data-dir, the listen URLs, the advertised URLs, --cert-file, --key-file,\n"+
		"--client-cert-auth, --trusted-ca-file and --watch-progress-notify-interval have no effect:\n\n")
	for line := range strings.Lines(etcdFlags) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		fmt.Fprintf(out, "  --%s\n", name)
	}
}

// etcdServer serves etcd's API on the client URLs of etcd, and health checks on its peer and metrics URLs.
type etcdServer struct {
	store  *datadir.Store
	server *etcdserver.Server
	// clients are the listeners of the client URLs, others the ones of the peer and metrics URLs.
	clients, others []urlListener
	config          *tls.Config // nil without a certificate
}

// urlListener is the listener of a URL.
type urlListener struct {
	net.Listener
	secure bool
}

// etcdHistory is the history of the stand-in. Unlike a control plane, etcd keeps all history until a client compacts it.
var etcdHistory = memory.Options{CompressAfter: compressAfter, History: 1 << 30, Retention: 100 * 365 * 24 * time.Hour}

// newEtcdServer opens the data directory and listens on the URLs in the flags.
func newEtcdServer(fs *flag.FlagSet) (_ *etcdServer, err error) {
	text := func(name, otherwise string) string {
		if value := fs.Lookup(name).Value.String(); value != "" {
			return value
		}
		return otherwise
	}
	s := &etcdServer{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.config, err = etcdTLS(text); err != nil {
		return nil, err
	}
	interval := time.Duration(0)
	if value := text("watch-progress-notify-interval", ""); value != "" {
		if interval, err = time.ParseDuration(value); err != nil {
			return nil, fmt.Errorf("--watch-progress-notify-interval: %w", err)
		}
	}
	data := text("data-dir", text("name", "default")+".etcd")
	if s.store, err = datadir.Open(filepath.Join(data, "member"), datadir.Options{Memory: etcdHistory}); err != nil {
		return nil, fmt.Errorf("cannot access data directory: %w", err)
	}
	clientURLs, peerURLs := text("listen-client-urls", "http://localhost:2379"), text("listen-peer-urls", "http://localhost:2380")
	s.server = etcdserver.New(etcdserver.Options{
		Store: s.store, Name: text("name", "default"), ProgressInterval: interval,
		ClientURLs: strings.Split(text("advertise-client-urls", clientURLs), ","),
		PeerURLs:   strings.Split(text("initial-advertise-peer-urls", peerURLs), ","),
	})
	if s.clients, err = s.listen(clientURLs); err == nil {
		s.others, err = s.listen(peerURLs + "," + text("listen-metrics-urls", ""))
	}
	return s, err
}

// listen listens on URLs.
func (s *etcdServer) listen(urls string) (listeners []urlListener, err error) {
	for text := range strings.SplitSeq(urls, ",") {
		if text == "" {
			continue
		}
		secure := strings.HasPrefix(text, "https:") || strings.HasPrefix(text, "unixs:")
		if secure && s.config == nil {
			err = fmt.Errorf("--cert-file and --key-file must both be present for %s", text)
		}
		var listener net.Listener
		if err == nil {
			listener, err = listenURL(text)
		}
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return nil, err
		}
		listeners = append(listeners, urlListener{listener, secure})
	}
	return listeners, nil
}

// etcdTLS returns the configuration of TLS in the flags, nil without a certificate.
func etcdTLS(text func(name, otherwise string) string) (*tls.Config, error) {
	certificate, key := text("cert-file", ""), text("key-file", "")
	if certificate == "" && key == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("--cert-file and --key-file: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	authorities := text("trusted-ca-file", "")
	if authorities == "" && text("client-cert-auth", "false") != "true" {
		return config, nil
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	if authorities != "" {
		config.ClientCAs, err = readCertificates("--trusted-ca-file", authorities)
	}
	return config, err
}

// close closes what newEtcdServer has opened.
func (s *etcdServer) close() (err error) {
	if s.server != nil {
		s.server.Stop()
	}
	for _, l := range append(s.clients, s.others...) {
		l.Close()
	}
	if s.store != nil {
		err = s.store.Close()
	}
	return err
}

// serve serves requests until ctx ends.
func (s *etcdServer) serve(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, s.close()) }()
	probes := &http.Server{Handler: s.server.Probes(), ReadHeaderTimeout: 10 * time.Second}
	defer probes.Close()
	failed := make(chan error, len(s.clients)+len(s.others))
	for _, l := range s.clients {
		go func() {
			var config *tls.Config
			if l.secure {
				config = s.config
			}
			failed <- s.server.Serve(l.Listener, config)
		}()
	}
	for _, l := range s.others {
		go func() {
			if l.secure {
				failed <- probes.Serve(tls.NewListener(l.Listener, s.config))
			} else {
				failed <- probes.Serve(l.Listener)
			}
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// listenURL listens at the address of a URL.
func listenURL(text string) (net.Listener, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "http", "https":
	case "unix", "unixs":
		return net.Listen("unix", u.Host+u.Path)
	default:
		return nil, fmt.Errorf("URL scheme must be http, https, unix, or unixs: %s", text)
	}
	if u.Port() == "" {
		return nil, fmt.Errorf("URL address does not have the form \"host:port\": %s", text)
	}
	listener, err := net.Listen("tcp", u.Host)
	if err != nil {
		var inner *net.OpError
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("cannot listen on %s: %w", u.Host, err)
	}
	return listener, nil
}
