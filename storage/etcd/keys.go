package etcd

import (
	"fmt"
	"path"
	"strings"
)

// Prefix is a prefix of keys of a store, and the prefix that they have in the cluster instead.
type Prefix struct{ Store, Cluster string }

// The prefixes of keys of a control plane: of the objects, and of its own records.
const (
	objects = "/registry/"
	own     = "/flyball/"
	// ownElsewhere comes before the prefix of the objects, if they have another one. Control planes with different prefixes
	// share no authorities, so their administrators cannot pass for each other.
	ownElsewhere = "/flyball.dev"
)

// DefaultPrefix is the default of kube-apiserver's flag --etcd-prefix.
const DefaultPrefix = "/registry"

// Prefixes returns the prefixes of a control plane that keeps its objects below a prefix in the cluster, as with
// kube-apiserver's flag --etcd-prefix.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.New
func Prefixes(prefix string) ([]Prefix, error) {
	cluster := path.Join("/", prefix)
	if cluster == DefaultPrefix {
		return []Prefix{{objects, objects}, {own, own}}, nil
	}
	for _, reserved := range []string{own, ownElsewhere + "/"} {
		if strings.HasPrefix(cluster+"/", reserved) || cluster == "/" {
			return nil, fmt.Errorf("the prefix %q is not possible: the control plane's own records are below %s", prefix, reserved)
		}
	}
	return []Prefix{{objects, cluster + "/"}, {own, ownElsewhere + cluster + "/"}}, nil
}

// toCluster returns the key in the cluster of a key of the store.
func (s *Store) toCluster(key string) string {
	for _, p := range s.options.Prefixes {
		if rest, ok := strings.CutPrefix(key, p.Store); ok {
			return p.Cluster + rest
		}
	}
	return key
}

// fromCluster returns the key of the store for a key in the cluster, and whether the store has it.
func (s *Store) fromCluster(key string) (string, bool) {
	for _, p := range s.options.Prefixes {
		if rest, ok := strings.CutPrefix(key, p.Cluster); ok {
			return p.Store + rest, true
		}
	}
	return "", false
}
