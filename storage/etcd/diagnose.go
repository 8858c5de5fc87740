package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// diagnoseTimeout bounds the connection to one endpoint.
const diagnoseTimeout = 2 * time.Second

// diagnose returns an error that says which endpoints cannot be reached, and why. The error of the client often says only
// that the time has run out.
func diagnose(ctx context.Context, o Options, err error) error {
	ctx = context.WithoutCancel(ctx)
	var unreachable []error
	for _, endpoint := range o.Endpoints {
		if failed := connect(ctx, endpoint, o.TLS); failed != nil {
			unreachable = append(unreachable, fmt.Errorf("%s: %w", endpoint, failed))
		}
	}
	if len(unreachable) == 0 {
		return fmt.Errorf("etcd: %w", err)
	}
	return fmt.Errorf("etcd cannot be reached: %w", errors.Join(unreachable...))
}

// connect connects to an endpoint, and shakes hands if the endpoint uses TLS.
func connect(ctx context.Context, endpoint string, config *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return errors.New("not a URL such as https://10.0.0.1:2379")
	}
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	var conn net.Conn
	if u.Scheme == "https" {
		conn, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", u.Host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	}
	if err != nil {
		return err
	}
	return conn.Close()
}
