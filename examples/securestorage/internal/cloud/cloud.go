// Package cloud is a client of the cloud, which has storage accounts and key vaults.
package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Account is a storage account. When it is created, the cloud gives it an identity, which takes a
// while.
type Account struct {
	Name string `json:"name"`
	// Owner identifies who has created the account.
	Owner    string `json:"owner"`
	Location string `json:"location"`
	// PrincipalID is the identity of the account, or "" if it has none yet.
	PrincipalID string `json:"principalID,omitempty"`
	// Key is the key that encrypts the account, or nil if that is the cloud's own.
	Key *Key `json:"key,omitempty"`
}

// Key is a key in a vault.
type Key struct {
	Vault string `json:"vault"`
	Name  string `json:"name"`
}

// Vault is a key vault.
type Vault struct {
	Name   string   `json:"name"`
	Keys   []string `json:"keys"`
	Access []Access `json:"access"`
}

// Access is the permission of an identity to use the keys of a vault.
type Access struct {
	PrincipalID string `json:"principalID"`
	// Owner identifies who has granted the access.
	Owner string `json:"owner"`
}

// Error is an error that the cloud has answered.
type Error struct {
	Status  int    `json:"-"` // of HTTP
	Message string `json:"message"`
}

func (e *Error) Error() string { return fmt.Sprintf("the cloud: %s (%d)", e.Message, e.Status) }

// IsNotFound reports whether the cloud has answered that something does not exist.
func IsNotFound(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// IsRefused reports whether the cloud has refused a request, which would be refused again unless
// something changes.
func IsRefused(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests
}

// timeout is how long a request may take.
const timeout = 10 * time.Second

// Client is a client of the cloud. It is safe for concurrent use.
//
// All writes are idempotent. Their errors are an [Error], or one of the network, after which a write
// may have taken effect or not.
type Client struct {
	url  string
	http http.Client
}

// NewClient returns a client of the cloud at a URL. The transport may be nil.
func NewClient(url string, transport http.RoundTripper) *Client {
	return &Client{url: url, http: http.Client{Transport: transport, Timeout: timeout}}
}

// Account returns a storage account.
func (c *Client) Account(ctx context.Context, name string) (*Account, error) {
	account := &Account{}
	return account, c.do(ctx, http.MethodGet, nil, account, "accounts", name)
}

// PutAccount creates a storage account, unless the owner has one of this name, and returns it. It is
// refused if the name is taken.
func (c *Client) PutAccount(ctx context.Context, account Account) (*Account, error) {
	put := &Account{}
	return put, c.do(ctx, http.MethodPut, account, put, "accounts", account.Name)
}

// DeleteAccount deletes a storage account.
func (c *Client) DeleteAccount(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, nil, nil, "accounts", name)
}

// PutKey encrypts a storage account with a key. It is refused if the account has no identity, or if
// the identity has no access to the vault.
func (c *Client) PutKey(ctx context.Context, account string, key Key) error {
	return c.do(ctx, http.MethodPut, key, nil, "accounts", account, "key")
}

// Vault returns a key vault.
func (c *Client) Vault(ctx context.Context, name string) (*Vault, error) {
	vault := &Vault{}
	return vault, c.do(ctx, http.MethodGet, nil, vault, "vaults", name)
}

// PutAccess lets an identity use the keys of a vault.
func (c *Client) PutAccess(ctx context.Context, vault string, access Access) error {
	return c.do(ctx, http.MethodPut, access, nil, "vaults", vault, "access", access.PrincipalID)
}

// DeleteAccess ends the access of an identity to a vault.
func (c *Client) DeleteAccess(ctx context.Context, vault, principalID string) error {
	return c.do(ctx, http.MethodDelete, nil, nil, "vaults", vault, "access", principalID)
}

// do sends a request with the JSON of in, if it is not nil, and decodes the response into out, if
// that is not nil.
func (c *Client) do(ctx context.Context, method string, in, out any, path ...string) error {
	body := []byte(nil)
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = encoded
	}
	target, err := url.JoinPath(c.url, path...)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		failure := &Error{Status: response.StatusCode}
		if json.Unmarshal(content, failure) != nil || failure.Message == "" {
			failure.Message = response.Status
		}
		return failure
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(content, out)
}
