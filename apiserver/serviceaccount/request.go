package serviceaccount

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

const (
	defaultSeconds int64 = 60 * 60
	minSeconds     int64 = 10 * 60
	maxSeconds     int64 = 1 << 32

	// A pod-bound token with the lifetime that the plugin ServiceAccount requests is valid for a year, because old
	// clients do not reload tokens.
	pluginSeconds   int64 = 3607
	extendedSeconds int64 = 365 * 24 * 60 * 60
)

var requestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// Requests returns the storage of the subresource serviceaccounts/token.
func (t *Tokens) Requests() rest.Storage { return &requests{t} }

// requests implements the subresource serviceaccounts/token.
//
//upstream:pkg/registry/core/serviceaccount/storage.TokenREST
type requests struct{ tokens *Tokens }

var (
	_ rest.NamedCreater                   = (*requests)(nil)
	_ rest.GroupVersionKindProvider       = (*requests)(nil)
	_ rest.SubresourceObjectMetaPreserver = (*requests)(nil)
)

func (r *requests) New() runtime.Object { return &authenticationv1.TokenRequest{} }
func (r *requests) Destroy()            {}

func (r *requests) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind { return requestKind }

func (r *requests) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Create issues a token for a service account.
//
//upstream:pkg/registry/core/serviceaccount/storage.TokenREST.Create
func (r *requests) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	req, ok := obj.(*authenticationv1.TokenRequest)
	if !ok {
		return nil, errors.NewBadRequest("not a TokenRequest")
	}
	account, err := r.account(ctx, name, req)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	req.CreationTimestamp = metav1.NewTime(now)
	req.Name, req.Namespace, req.UID = account.GetName(), account.GetNamespace(), account.GetUID()
	req.ManagedFields = nil
	req.Status = authenticationv1.TokenRequestStatus{}
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = r.tokens.audiences
	}
	if req.Spec.ExpirationSeconds == nil {
		req.Spec.ExpirationSeconds = new(defaultSeconds)
	}
	if errs := validateSeconds(*req.Spec.ExpirationSeconds); len(errs) > 0 {
		return nil, errors.NewInvalid(requestKind.GroupKind(), "", errs)
	}
	if validate != nil {
		if err := validate(ctx, req.DeepCopy()); err != nil {
			return nil, err
		}
	}
	c, err := r.claims(req, account, now)
	if err != nil {
		return nil, err
	}
	token, err := r.tokens.signer.sign(c)
	if err != nil {
		return nil, errors.NewInternalError(fmt.Errorf("failed to generate token: %v", err))
	}
	req.Status = authenticationv1.TokenRequestStatus{Token: token,
		ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(*req.Spec.ExpirationSeconds) * time.Second))}
	return req, nil
}

// account returns the service account of a request. The name and the namespace of the body must match it.
func (r *requests) account(ctx context.Context, name string, req *authenticationv1.TokenRequest) (object, error) {
	namespace, ok := request.NamespaceFrom(ctx)
	if !ok {
		return nil, errors.NewBadRequest("namespace is required")
	}
	metadata := field.NewPath("metadata")
	var errs field.ErrorList
	switch {
	case req.Name != "" && req.Name != name:
		errs = append(errs, field.Invalid(metadata.Child("name"), req.Name,
			"must match the service account name if specified"))
	case req.Namespace != "" && req.Namespace != namespace:
		errs = append(errs, field.Invalid(metadata.Child("namespace"), req.Namespace,
			"must match the service account namespace if specified"))
	}
	if len(errs) > 0 {
		return nil, errors.NewInvalid(requestKind.GroupKind(), name, errs)
	}
	account, err := r.tokens.get("serviceaccounts", namespace, name)
	if err != nil {
		return nil, err
	}
	if uid := account.GetUID(); req.UID != "" && req.UID != uid {
		return nil, errors.NewConflict(schema.GroupResource{Group: requestKind.Group, Resource: requestKind.Kind}, name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", req.UID, uid))
	}
	return account, nil
}

//upstream:pkg/apis/authentication/validation.ValidateTokenRequest
func validateSeconds(seconds int64) field.ErrorList {
	at := field.NewPath("spec", "expirationSeconds")
	switch {
	case seconds < minSeconds:
		return field.ErrorList{field.Invalid(at, seconds, "may not specify a duration less than 10 minutes")}
	case seconds > maxSeconds:
		return field.ErrorList{field.Invalid(at, seconds, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}

//upstream:pkg/serviceaccount.Claims
func (r *requests) claims(req *authenticationv1.TokenRequest, account object, now time.Time) (*claims, error) {
	seconds := *req.Spec.ExpirationSeconds
	c := &claims{
		Audience: req.Spec.Audiences, Issuer: r.tokens.issuers[0], ID: uuid.NewString(),
		Subject:  serviceaccount.MakeUsername(account.GetNamespace(), account.GetName()),
		IssuedAt: now.Unix(), NotBefore: now.Unix(),
		Kubernetes: kubernetes{Namespace: account.GetNamespace(), ServiceAccount: *referenceTo(account)},
	}
	if ref := req.Spec.BoundObjectRef; ref != nil {
		if err := r.bind(&c.Kubernetes, ref); err != nil {
			return nil, err
		}
	}
	if c.Kubernetes.Pod != nil && seconds == pluginSeconds && len(r.tokens.audiences.Intersect(req.Spec.Audiences)) > 0 {
		c.Kubernetes.WarnAfter = now.Unix() + seconds
		seconds = extendedSeconds
	}
	c.Expiry = now.Unix() + seconds
	return c, nil
}

// bind binds the token of a service account to an object.
func (r *requests) bind(k *kubernetes, ref *authenticationv1.BoundObjectReference) error {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	var to **reference
	resource, namespace := "", k.Namespace
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		to, resource = &k.Pod, "pods"
	case schema.GroupKind{Kind: "Secret"}:
		to, resource = &k.Secret, "secrets"
	case schema.GroupKind{Kind: "Node"}:
		to, resource, namespace = &k.Node, "nodes", ""
	default:
		return errors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk.String()))
	}
	obj, err := r.tokens.get(resource, namespace, ref.Name)
	if err != nil {
		return err
	}
	pod, isPod := obj.(*corev1.Pod)
	if isPod && pod.Spec.ServiceAccountName != k.ServiceAccount.Name {
		return errors.NewBadRequest(fmt.Sprintf(
			"cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", k.ServiceAccount.Name))
	}
	if ref.UID != "" && ref.UID != obj.GetUID() {
		return errors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. "+
				"The object might have been deleted and then recreated", ref.UID))
	}
	*to = referenceTo(obj)
	if isPod && pod.Spec.NodeName != "" {
		k.Node = &reference{Name: pod.Spec.NodeName}
		if node, err := r.tokens.get("nodes", "", pod.Spec.NodeName); err == nil {
			k.Node = referenceTo(node)
		}
	}
	return nil
}
