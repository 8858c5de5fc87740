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

// connectTimeout bounds the connection to one endpoint.
const connectTimeout = 2 * time.Second

// reach returns an error if no endpoint can be reached. The error of the client would say only that the time has run out.
func reach(ctx context.Context, o Options) error {
	if len(o.Endpoints) == 0 {
		return errors.New("etcd: there are no endpoints")
	}
	var unreachable []error
	for _, endpoint := range o.Endpoints {
		err := connect(ctx, endpoint, o.TLS)
		if err == nil {
			return nil
		}
		unreachable = append(unreachable, fmt.Errorf("%s: %w", endpoint, err))
	}
	return fmt.Errorf("etcd cannot be reached: %w", errors.Join(unreachable...))
}

// connect connects to an endpoint, and shakes hands if the endpoint uses TLS.
func connect(ctx context.Context, endpoint string, config *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return errors.New("not a URL such as https://10.0.0.1:2379")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
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
