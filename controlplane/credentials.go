package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"flyball.dev/storage"
)

// Keys of what a control plane keeps in its storage beside the objects. No request reaches them, and
// kube-apiserver ignores them: its keys begin with /registry/.
const (
	credentialsKey = "/flyball/credentials"
	addressKey     = "/flyball/address"
)

// credentials are the keys of a control plane. They are in its storage, so that certificates, tokens and
// kubeconfigs outlive a restart, and are the same for all servers of one storage.
type credentials struct {
	// clients signs the certificates of the server and of its clients.
	clients *authority
	// proxies signs the certificate of requests to extension API servers. It signs nothing else, so that
	// no user can pass for the API server.
	proxies *authority
	// serviceAccounts signs the tokens of service accounts.
	serviceAccounts *ecdsa.PrivateKey
}

// storedCredentials is the stored form of credentials, in PEM.
type storedCredentials struct {
	Clients         storedAuthority `json:"clientCA"`
	Proxies         storedAuthority `json:"requestHeaderCA"`
	ServiceAccounts []byte          `json:"serviceAccountKey"`
}

// storedAuthority is the stored form of an authority, in PEM.
type storedAuthority struct {
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`
}

// loadCredentials returns the credentials in a storage. If there are none, it makes them; of several servers
// that do so at once, all return the same.
func loadCredentials(ctx context.Context, s storage.Store) (*credentials, error) {
	record, err := s.Get(ctx, credentialsKey)
	if errors.Is(err, storage.ErrNotFound) {
		c, data, makeErr := newCredentials()
		if makeErr != nil {
			return nil, makeErr
		}
		record, err = s.Put(ctx, storage.Write{Key: credentialsKey, Value: data, If: storage.Absent})
		if err == nil {
			return c, nil
		}
		if errors.Is(err, storage.ErrConflict) {
			err = nil // another server was first
		}
	}
	if err != nil {
		return nil, err
	}
	c, err := decodeCredentials(record.Value())
	if err != nil {
		return nil, fmt.Errorf("%s in the storage: %w", credentialsKey, err)
	}
	return c, nil
}

// newCredentials returns new credentials, and their stored form.
func newCredentials() (c *credentials, data []byte, err error) {
	c = &credentials{}
	if c.clients, err = newAuthority(); err != nil {
		return nil, nil, err
	}
	if c.proxies, err = newAuthority(); err != nil {
		return nil, nil, err
	}
	if c.serviceAccounts, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	var stored storedCredentials
	if stored.Clients, err = c.clients.encode(); err != nil {
		return nil, nil, err
	}
	if stored.Proxies, err = c.proxies.encode(); err != nil {
		return nil, nil, err
	}
	if stored.ServiceAccounts, err = encodeKey(c.serviceAccounts); err != nil {
		return nil, nil, err
	}
	data, err = json.Marshal(stored)
	return c, data, err
}

func decodeCredentials(data []byte) (c *credentials, err error) {
	var stored storedCredentials
	if err := json.Unmarshal(data, &stored); err != nil {
		return nil, err
	}
	c = &credentials{}
	if c.clients, err = stored.Clients.decode(); err != nil {
		return nil, fmt.Errorf("clientCA: %w", err)
	}
	if c.proxies, err = stored.Proxies.decode(); err != nil {
		return nil, fmt.Errorf("requestHeaderCA: %w", err)
	}
	if c.serviceAccounts, err = decodeKey(stored.ServiceAccounts); err != nil {
		return nil, fmt.Errorf("serviceAccountKey: %w", err)
	}
	return c, nil
}

func (a *authority) encode() (storedAuthority, error) {
	key, err := encodeKey(a.key)
	return storedAuthority{a.pem(), key}, err
}

func (s storedAuthority) decode() (*authority, error) {
	block, _ := pem.Decode(s.Certificate)
	if block == nil {
		return nil, errNoPEM
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := decodeKey(s.Key)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("the key is not that of the certificate")
	}
	return &authority{cert, key}, nil
}

var errNoPEM = errors.New("it is not in PEM")

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func decodeKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errNoPEM
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it is a %T", key)
	}
	return private, nil
}
