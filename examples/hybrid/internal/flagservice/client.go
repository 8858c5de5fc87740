package flagservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrNoProject is the error for a project that the service does not have.
var ErrNoProject = errors.New("the flag service has no such project")

// Client is a client of the flag service. It is safe for concurrent use.
type Client struct {
	url  string
	http *http.Client
}

// NewClient returns a client of the service at a URL. If transport is nil, it is the default one.
func NewClient(url string, transport http.RoundTripper) *Client {
	return &Client{url: url, http: &http.Client{Transport: transport, Timeout: 5 * time.Second}}
}

// Flags are the flags of a project at a revision.
type Flags struct {
	Revision string
	Values   map[string]string
}

// Get returns the flags of a project, or [ErrNoProject].
func (c *Client) Get(ctx context.Context, project string) (*Flags, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/projects/"+url.PathEscape(project), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, ErrNoProject
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the flag service answered %s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	flags := &Flags{Revision: strings.Trim(resp.Header.Get("ETag"), `"`)}
	return flags, json.Unmarshal(body, &flags.Values)
}
