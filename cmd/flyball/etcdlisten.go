package main

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"k8s.io/klog/v2"

	"flyball.dev/storage"
	"flyball.dev/storage/etcdserver"
)

// etcdAPI is etcd's API over the storage of a control plane.
type etcdAPI struct {
	url      string
	listener net.Listener
	server   *etcdserver.Server // nil before serve
	ended    chan struct{}
}

// listenEtcd listens on a URL that only programs of this machine reach. Without a URL, it returns nil.
func listenEtcd(text string) (*etcdAPI, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "unix" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return nil, fmt.Errorf("--etcd-listen: %q is neither a URL of a loopback address, such as http://127.0.0.1:2379, nor of a Unix socket: "+
			"clients of etcd need no credentials", text)
	}
	listener, err := listenURL(text)
	if err != nil {
		return nil, fmt.Errorf("--etcd-listen: %w", err)
	}
	if u.Scheme == "http" {
		text = "http://" + listener.Addr().String()
	}
	return &etcdAPI{url: text, listener: listener, ended: make(chan struct{})}, nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// serve serves the API over a storage until close.
func (e *etcdAPI) serve(s storage.Store) {
	if e == nil {
		return
	}
	e.server = etcdserver.New(etcdserver.Options{Store: s.(etcdserver.Store), ClientURLs: []string{e.url}})
	go func() {
		defer close(e.ended)
		if err := e.server.Serve(e.listener, nil); err != nil {
			klog.Errorf("etcd's API is no longer served at %s: %v", e.url, err)
		}
	}()
}

// close ends all requests.
func (e *etcdAPI) close() {
	switch {
	case e == nil:
		return
	case e.server == nil:
		e.listener.Close()
		return
	}
	e.server.Stop()
	<-e.ended
}
