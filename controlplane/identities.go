package controlplane

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"flyball.dev/apiserver/authz"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/controllers"
	"flyball.dev/controllers/pods"
	"flyball.dev/internal/restclient"
)

// manifests returns the objects that the controllers need at their start.
func (o *Options) manifests() ([]kinds.Object, error) {
	modes, err := authz.ParseModes(o.AuthorizationMode)
	if err != nil {
		return nil, err
	}
	if slices.Equal(modes, []string{authz.ModeNode}) {
		return nil, fmt.Errorf("the authorization mode %s alone does not authorize controllers: use %s,%s",
			authz.ModeNode, authz.ModeNode, authz.ModeRBAC)
	}
	manifests, err := o.Controllers.Manifests(slices.Contains(modes, authz.ModeNode))
	objects := make([]kinds.Object, len(manifests))
	for i := range manifests {
		objects[i] = manifests[i]
	}
	return objects, err
}

// identities returns a function that returns the configuration of an in-process client with the identity of a
// controller. Service accounts keep the UIDs that they have at the time of the call.
func (c *ControlPlane) identities() (func(controllers.Identity) *rest.Config, error) {
	accounts, err := c.serviceAccounts()
	if err != nil {
		return nil, err
	}
	return func(id controllers.Identity) *rest.Config {
		config := c.Config()
		config.UserAgent = id.UserAgent
		config.WarningHandler = rest.NoWarnings{} // controllers use deprecated kinds, such as Endpoints
		groups := append(slices.Clone(id.Groups), user.AllAuthenticated)
		userOf := always(&user.DefaultInfo{Name: id.User, UID: string(accounts[id.User]), Groups: groups})
		if id.Nodes {
			userOf = func(ctx context.Context) user.Info { return &user.DefaultInfo{Name: pods.UserOf(ctx), Groups: groups} }
		}
		config.Transport = c.transport.asController(userOf)
		if wrap := c.options.WrapTransport; wrap != nil {
			config.Transport = wrap(id.User, config.Transport)
		}
		return config
	}, nil
}

// serviceAccounts returns the UIDs of the service accounts in kube-system by user name.
func (c *ControlPlane) serviceAccounts() (map[string]types.UID, error) {
	core, err := restclient.For(c.Config(), nil, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	list := &corev1.ServiceAccountList{}
	err = core.Get().Namespace(metav1.NamespaceSystem).Resource("serviceaccounts").Do(context.Background()).Into(list)
	if err != nil {
		return nil, fmt.Errorf("the service accounts of the controllers: %w", err)
	}
	uids := map[string]types.UID{}
	for i := range list.Items {
		account := &list.Items[i]
		uids[serviceaccount.MakeUsername(account.Namespace, account.Name)] = account.UID
	}
	return uids, nil
}
