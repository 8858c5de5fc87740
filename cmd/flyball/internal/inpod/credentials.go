package inpod

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// The times of a token.
const (
	// lifetime is how long a token is valid, in seconds, unless the API server has other limits.
	//upstream:plugin/pkg/admission/serviceaccount.TokenVolumeSource
	lifetime = 3607
	// maxAge is the age at which a token with a longer lifetime is renewed. jitter is the time by which a token is
	// renewed earlier at random, so that programs that start together do not renew together.
	//upstream:pkg/kubelet/token.Manager.requiresRefresh
	maxAge = 24 * time.Hour
	jitter = 10 * time.Second
	// check is how often the clock is read. A timer alone would be late after the machine has slept.
	check = time.Minute
	// retry is the time between attempts after an error.
	retry = 10 * time.Second
)

// Credentials are the files of a service account, in a directory: token, ca.crt and namespace.
type Credentials struct {
	dir     string
	account Account
	core    rest.Interface
	renewAt time.Time // of the wall clock
}

// NewCredentials requests a token by a client of the core group, and writes the files to a directory. They are readable for the owner alone.
func NewCredentials(ctx context.Context, core rest.Interface, account Account, ca []byte, dir string) (*Credentials, error) {
	c := &Credentials{dir: dir, account: account, core: core}
	if err := c.renew(ctx); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%w: %s", err, account.create(err))
		}
		return nil, fmt.Errorf("no token for the service account %s: %w", account, err)
	}
	for name, content := range map[string][]byte{"ca.crt": ca, "namespace": []byte(account.Namespace)} {
		if err := replace(dir, name, content); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// create returns the command that creates what the error says is not there.
func (a Account) create(err error) string {
	command := fmt.Sprintf("kubectl create serviceaccount --namespace %s %s", a.Namespace, a.Name)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces" {
		return fmt.Sprintf("kubectl create namespace %s && %s", a.Namespace, command)
	}
	return command
}

// TokenFile returns the path of the token.
func (c *Credentials) TokenFile() string { return filepath.Join(c.dir, "token") }

// Keep renews the token before it expires, until ctx ends. It calls warn with an error that lasts, once, and tries
// again.
func (c *Credentials) Keep(ctx context.Context, warn func(error)) {
	failed := false
	for pause := time.Duration(0); ; {
		if pause == 0 {
			pause = min(time.Until(c.renewAt), check)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = 0
		if time.Now().Round(0).Before(c.renewAt) {
			continue
		}
		switch err := c.renew(ctx); {
		case err == nil:
			failed = false
		case ctx.Err() == nil:
			pause = retry
			if !failed {
				failed = true
				warn(fmt.Errorf("the token of the service account %s cannot be renewed: %w", c.account, err))
			}
		}
	}
}

// renew writes a new token.
func (c *Credentials) renew(ctx context.Context) error {
	issued := time.Now().Round(0)
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](lifetime)}}
	err := c.core.Post().Namespace(c.account.Namespace).Resource("serviceaccounts").Name(c.account.Name).SubResource("token").Body(r).Do(ctx).Into(r)
	if err != nil {
		return err
	}
	if err := replace(c.dir, "token", []byte(r.Status.Token)); err != nil {
		return err
	}
	c.renewAt = renewalOf(issued, r.Status.ExpirationTimestamp.Time).Add(-rand.N(jitter))
	return nil
}

// renewalOf returns the time when a token has a fifth of its lifetime left, or is a day old.
//
//upstream:pkg/kubelet/token.Manager.requiresRefresh
func renewalOf(issued, expires time.Time) time.Time {
	return issued.Add(min(expires.Sub(issued)*4/5, maxAge))
}

// NewDirectory makes a directory for credentials, which only the user of this process can read.
func NewDirectory(pattern string) (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", pattern) // with mode 0700
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// httpRequest returns a request by which a proxy is chosen.
func httpRequest(u *url.URL) *http.Request {
	return &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}
}
