package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// etcdVersion is the version of etcd that the stand-in reports.
const etcdVersion = "3.6.8"

// etcdFlags lists the flags of etcd 3.6, one per line: NAME, followed by "bool" for a flag that needs no value.
//
//go:embed etcd_flags.txt
var etcdFlags string

// etcd is the stand-in for etcd. It answers health checks and stores nothing, because the stand-in for kube-apiserver
// keeps the objects itself. It runs until ctx ends and returns the exit code.
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
		fmt.Fprintf(stdout, "etcd Version: %s\nGit SHA: Flyball's stand-in\n", etcdVersion)
		return 0
	case fs.NArg() > 0:
		fmt.Fprintf(stderr, "etcd: %q is not supported by this stand-in\n", fs.Arg(0))
		return 1
	}
	s, err := newEtcdServer(fs)
	if err == nil {
		releaseMemory()
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
	fmt.Fprint(out, "Usage:\n\n  etcd [flags]\n    A stand-in for etcd, which answers health checks and stores nothing.\n\n"+
		"Flags, of which all but --data-dir and the listen URLs have no effect:\n\n")
	for line := range strings.Lines(etcdFlags) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		fmt.Fprintf(out, "  --%s\n", name)
	}
}

// etcdServer listens on the client, peer and metrics URLs of etcd.
type etcdServer struct {
	listeners        []net.Listener
	secure           []bool // by listener
	certificate, key string
}

// newEtcdServer creates the data directory and listens on the URLs in the flags.
func newEtcdServer(fs *flag.FlagSet) (_ *etcdServer, err error) {
	text := func(name, otherwise string) string {
		if value := fs.Lookup(name).Value.String(); value != "" {
			return value
		}
		return otherwise
	}
	data := text("data-dir", text("name", "default")+".etcd")
	if err := os.MkdirAll(filepath.Join(data, "member"), 0o700); err != nil {
		return nil, fmt.Errorf("cannot access data directory: %w", err)
	}
	s := &etcdServer{certificate: text("cert-file", ""), key: text("key-file", "")}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	urls := text("listen-client-urls", "http://localhost:2379") + "," +
		text("listen-peer-urls", "http://localhost:2380") + "," + text("listen-metrics-urls", "")
	for text := range strings.SplitSeq(urls, ",") {
		if text == "" {
			continue
		}
		listener, err := listenURL(text)
		if err != nil {
			return nil, err
		}
		s.listeners, s.secure = append(s.listeners, listener), append(s.secure, strings.HasPrefix(text, "https:"))
	}
	return s, nil
}

func (s *etcdServer) close() {
	for _, l := range s.listeners {
		l.Close()
	}
}

// serve serves requests until ctx ends.
func (s *etcdServer) serve(ctx context.Context) error {
	mux := http.NewServeMux()
	for path, body := range map[string]string{
		"/health":  `{"health":"true","reason":""}`,
		"/livez":   "ok\n",
		"/readyz":  "ok\n",
		"/version": fmt.Sprintf(`{"etcdserver":%q,"etcdcluster":"3.6.0","storage":"3.6.0"}`, etcdVersion),
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer server.Close()
	failed := make(chan error, len(s.listeners))
	for i, listener := range s.listeners {
		go func() {
			if s.secure[i] {
				failed <- server.ServeTLS(listener, s.certificate, s.key)
			} else {
				failed <- server.Serve(listener)
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
