// Package backup is a backup service outside of the cluster: a client, and a server that keeps its
// vaults in memory and can be slow or down.
//
// A vault has snapshots. Both are created by name, so to create one again changes nothing, and
// become ready some time later, for which a client has to poll.
package backup

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// State is the state of a vault or a snapshot.
type State string

// The states.
const (
	Absent  State = ""
	Pending State = "Pending"
	Ready   State = "Ready"
)

// Client sends requests to a backup service. It is safe for concurrent use.
type Client struct {
	url  string
	http *http.Client
}

// NewClient returns a client for the service with this URL.
func NewClient(url string) *Client {
	return &Client{url: strings.TrimSuffix(url, "/"), http: &http.Client{Timeout: 10 * time.Second}}
}

// WithTransport returns a client that sends its requests with this transport.
func (c *Client) WithTransport(transport http.RoundTripper) *Client {
	return &Client{url: c.url, http: &http.Client{Timeout: c.http.Timeout, Transport: transport}}
}

// Vault returns the state of a vault.
func (c *Client) Vault(ctx context.Context, vault string) (State, error) {
	return c.do(ctx, http.MethodGet, "vaults", vault)
}

// CreateVault creates a vault if it is absent, and returns its state.
func (c *Client) CreateVault(ctx context.Context, vault string) (State, error) {
	return c.do(ctx, http.MethodPut, "vaults", vault)
}

// DeleteVault deletes a vault with its snapshots, if it is there.
func (c *Client) DeleteVault(ctx context.Context, vault string) error {
	_, err := c.do(ctx, http.MethodDelete, "vaults", vault)
	return err
}

// Snapshot returns the state of a snapshot.
func (c *Client) Snapshot(ctx context.Context, vault, snapshot string) (State, error) {
	return c.do(ctx, http.MethodGet, "vaults", vault, "snapshots", snapshot)
}

// TakeSnapshot begins a snapshot if it is absent, and returns its state. The vault must be there.
func (c *Client) TakeSnapshot(ctx context.Context, vault, snapshot string) (State, error) {
	return c.do(ctx, http.MethodPut, "vaults", vault, "snapshots", snapshot)
}

// do sends a request and returns the state in the response, which is Absent if that is 404 or
// empty.
func (c *Client) do(ctx context.Context, method string, path ...string) (State, error) {
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	target := c.url + "/" + strings.Join(path, "/")
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return Absent, fmt.Errorf("the backup service: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return Absent, fmt.Errorf("the backup service cannot be reached: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return Absent, fmt.Errorf("the backup service: %w", err)
	}
	switch {
	case method != http.MethodPut && resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusNoContent:
		return Absent, nil
	case resp.StatusCode >= http.StatusMultipleChoices:
		return Absent, fmt.Errorf("the backup service: %s %s: %s", method, req.URL.Path, resp.Status)
	}
	var item struct{ State State }
	if err := json.Unmarshal(body, &item); err != nil {
		return Absent, fmt.Errorf("the backup service: %s %s: %w", method, req.URL.Path, err)
	}
	return item.State, nil
}
