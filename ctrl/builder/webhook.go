package builder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"flyball.dev/ctrl/client/apiutil"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/ctrl/webhook/admission"
	"flyball.dev/ctrl/webhook/conversion"
)

// conversionPath is the path of the conversion webhook, which all kinds share.
const conversionPath = "/convert"

// WebhookBuilder builds the webhooks of a kind: one for a defaulter, one for a validator, and that
// for conversion if the kind has several versions that can be converted. Its methods return the
// builder itself, so that they can be chained. It is not safe for concurrent use.
type WebhookBuilder[T runtime.Object] struct {
	mgr    manager.Manager
	object T

	defaulter        admission.Defaulter[T]
	customDefaulter  admission.Defaulter[runtime.Object]
	defaulterOptions []admission.DefaulterOption
	defaulterPath    string
	validator        admission.Validator[T]
	customValidator  admission.Validator[runtime.Object]
	validatorPath    string
	newConverter     func(*runtime.Scheme) (conversion.Converter, error)

	recoverPanic   *bool
	logConstructor func(base logr.Logger, req *admission.Request) logr.Logger
	contextFunc    func(context.Context, *http.Request) context.Context
}

// WebhookManagedBy returns a builder of webhooks for the kind of object, which the webhook server
// of m serves.
func WebhookManagedBy[T runtime.Object](m manager.Manager, object T) *WebhookBuilder[T] {
	return &WebhookBuilder[T]{mgr: m, object: object}
}

// WithCustomDefaulter sets a defaulter of any type.
//
// Deprecated: use WithDefaulter.
func (blder *WebhookBuilder[T]) WithCustomDefaulter(
	defaulter admission.Defaulter[runtime.Object], opts ...admission.DefaulterOption,
) *WebhookBuilder[T] {
	blder.customDefaulter, blder.defaulterOptions = defaulter, opts
	return blder
}

// WithDefaulter sets the defaulter: a mutating webhook calls it.
func (blder *WebhookBuilder[T]) WithDefaulter(
	defaulter admission.Defaulter[T], opts ...admission.DefaulterOption,
) *WebhookBuilder[T] {
	blder.defaulter, blder.defaulterOptions = defaulter, opts
	return blder
}

// WithCustomValidator sets a validator of any type.
//
// Deprecated: use WithValidator.
func (blder *WebhookBuilder[T]) WithCustomValidator(validator admission.Validator[runtime.Object]) *WebhookBuilder[T] {
	blder.customValidator = validator
	return blder
}

// WithValidator sets the validator: a validating webhook calls it.
func (blder *WebhookBuilder[T]) WithValidator(validator admission.Validator[T]) *WebhookBuilder[T] {
	blder.validator = validator
	return blder
}

// WithConverter sets the constructor of the converter between the versions of the kind, such as
// the converter of [conversion.NewHubSpokeConverter]. Without one, the kind is converted if its types have
// the methods for it.
func (blder *WebhookBuilder[T]) WithConverter(
	converterConstructor func(*runtime.Scheme) (conversion.Converter, error),
) *WebhookBuilder[T] {
	blder.newConverter = converterConstructor
	return blder
}

// WithLogConstructor sets the function that makes the loggers for requests. Its request is nil
// outside of requests.
func (blder *WebhookBuilder[T]) WithLogConstructor(
	logConstructor func(base logr.Logger, req *admission.Request) logr.Logger,
) *WebhookBuilder[T] {
	blder.logConstructor = logConstructor
	return blder
}

// WithContextFunc sets the function that makes the contexts of admission requests from the contexts of the
// HTTP requests.
func (blder *WebhookBuilder[T]) WithContextFunc(
	contextFunc func(context.Context, *http.Request) context.Context,
) *WebhookBuilder[T] {
	blder.contextFunc = contextFunc
	return blder
}

// RecoverPanic sets whether a panic in an admission webhook is recovered and answered with the code
// 500. True by default. Panics of conversions are always recovered.
func (blder *WebhookBuilder[T]) RecoverPanic(recoverPanic bool) *WebhookBuilder[T] {
	blder.recoverPanic = &recoverPanic
	return blder
}

// WithValidatorCustomPath sets the path of the validating webhook. By default it is made of the
// kind: /validate-apps-v1-deployment.
func (blder *WebhookBuilder[T]) WithValidatorCustomPath(customPath string) *WebhookBuilder[T] {
	blder.validatorPath = customPath
	return blder
}

// WithDefaulterCustomPath sets the path of the mutating webhook. By default it is made of the kind:
// /mutate-apps-v1-deployment.
func (blder *WebhookBuilder[T]) WithDefaulterCustomPath(customPath string) *WebhookBuilder[T] {
	blder.defaulterPath = customPath
	return blder
}

// Complete registers the webhooks with the server of the manager. An admission webhook is not
// registered if its path is taken: the handler at the path stays. Complete returns an error if there
// is no manager or object, the kind is not in the manager's scheme, a custom path is not valid, a
// defaulter or validator is set both as a typed and as a custom one, the kind has a converter
// already, or only some of its versions can be converted. Webhooks that were registered before the
// error stay.
func (blder *WebhookBuilder[T]) Complete() error {
	switch {
	case blder.mgr == nil:
		return errors.New("must provide a non-nil Manager")
	case reflectutil.IsNil(blder.object):
		return errors.New("NewWebhookManagedBy() must be called with a valid object")
	}
	gvk, err := apiutil.GVKForObject(blder.object, blder.mgr.GetScheme())
	if err != nil {
		return err
	}
	mutating, err := blder.defaulting()
	if err != nil {
		return err
	}
	validating, err := blder.validating()
	if err != nil {
		return err
	}
	err = blder.register(webhook.Mutating, gvk, mutatePath(gvk), blder.defaulterPath, mutating)
	if err != nil {
		return err
	}
	err = blder.register(webhook.Validating, gvk, validatePath(gvk), blder.validatorPath, validating)
	if err != nil {
		return err
	}
	return blder.registerConversion(gvk)
}

// defaulting returns the mutating webhook, or nil if there is no defaulter.
func (blder *WebhookBuilder[T]) defaulting() (*admission.Webhook, error) {
	scheme, opts := blder.mgr.GetScheme(), blder.defaulterOptions
	switch {
	case blder.defaulter != nil && blder.customDefaulter != nil:
		return nil, errors.New("only one of Defaulter or CustomDefaulter can be set")
	case blder.defaulter != nil:
		return admission.WithDefaulter(scheme, blder.defaulter, opts...), nil
	case blder.customDefaulter != nil:
		//lint:ignore SA1019 called by a method that is deprecated too
		return admission.WithCustomDefaulter(scheme, blder.object, blder.customDefaulter, opts...), nil
	default:
		return nil, nil
	}
}

// validating returns the validating webhook, or nil if there is no validator.
func (blder *WebhookBuilder[T]) validating() (*admission.Webhook, error) {
	switch {
	case blder.validator != nil && blder.customValidator != nil:
		return nil, errors.New("only one of Validator or CustomValidator can be set")
	case blder.validator != nil:
		return admission.WithValidator(blder.mgr.GetScheme(), blder.validator), nil
	case blder.customValidator != nil:
		//lint:ignore SA1019 called by a method that is deprecated too
		return admission.WithCustomValidator(blder.mgr.GetScheme(), blder.object, blder.customValidator), nil
	default:
		return nil, nil
	}
}

// register registers an admission webhook, unless it is nil or its path is taken.
func (blder *WebhookBuilder[T]) register(
	hookType webhook.HookType, gvk schema.GroupVersionKind, path, custom string, hook *admission.Webhook,
) error {
	if hook == nil {
		return nil
	}
	if custom != "" {
		if !customPathPattern.MatchString(custom) {
			return fmt.Errorf("customPath %q does not match this regex: %s", custom, customPathPattern)
		}
		path = custom
	}
	hook.RecoverPanic, hook.WithContextFunc = blder.recoverPanic, blder.contextFunc
	if hook.LogConstructor = blder.logConstructor; hook.LogConstructor == nil {
		hook.LogConstructor = webhookLogger(gvk)
	}
	if !blder.isServed(path) {
		blder.mgr.GetLogger().Info("Registering an admission webhook", "type", hookType, "GVK", gvk, "path", path)
		blder.mgr.GetWebhookServer().Register(path, hook)
		return blder.declare(webhook.Hook{Type: hookType, Path: path, Kind: gvk})
	}
	return nil
}

func mutatePath(gvk schema.GroupVersionKind) string { return "/mutate-" + kindPath(gvk) }

func validatePath(gvk schema.GroupVersionKind) string { return "/validate-" + kindPath(gvk) }

// kindPath returns a kind as the paths of its webhooks have it: apps-v1-deployment.
func kindPath(gvk schema.GroupVersionKind) string {
	return strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
}

var customPathPattern = regexp.MustCompile(`^((/[a-zA-Z0-9-_]+)+|/)$`)

// webhookLogger returns a constructor of loggers that name the kind and the object.
func webhookLogger(gvk schema.GroupVersionKind) func(logr.Logger, *admission.Request) logr.Logger {
	return func(base logr.Logger, req *admission.Request) logr.Logger {
		logger := base.WithValues("webhookGroup", gvk.Group, "webhookKind", gvk.Kind)
		if req == nil {
			return logger
		}
		return logger.WithValues(
			gvk.Kind, klog.KRef(req.Namespace, req.Name), "namespace", req.Namespace, "name", req.Name,
			"resource", req.Resource, "user", req.UserInfo.Username, "requestID", req.UID)
	}
}

// registerConversion registers the conversion webhook if the kind can be converted.
func (blder *WebhookBuilder[T]) registerConversion(gvk schema.GroupVersionKind) error {
	scheme, registry := blder.mgr.GetScheme(), blder.mgr.GetConverterRegistry()
	if blder.newConverter != nil {
		converter, err := blder.newConverter(scheme)
		if err == nil {
			err = registry.RegisterConverter(gvk.GroupKind(), converter)
		}
		if err != nil {
			return err
		}
	} else if ok, err := conversion.IsConvertible(scheme, blder.object); err != nil || !ok {
		return err
	}
	if !blder.isServed(conversionPath) {
		blder.mgr.GetWebhookServer().Register(conversionPath, conversion.NewWebhookHandler(scheme, registry))
	}
	blder.mgr.GetLogger().Info("Conversion webhook enabled", "GVK", gvk)
	return blder.declare(webhook.Hook{Type: webhook.Conversion, Path: conversionPath, Kind: gvk})
}

// isServed reports whether the server has a handler for exactly this path, not only for a prefix.
func (blder *WebhookBuilder[T]) isServed(path string) bool {
	mux := blder.mgr.GetWebhookServer().WebhookMux()
	if mux == nil {
		return false
	}
	_, pattern := mux.Handler(&http.Request{URL: &url.URL{Path: path}})
	return pattern == path
}

// declarer is a webhook server that installs the webhooks that are declared to it.
type declarer interface{ Declare(webhook.Hook) error }

var _ declarer = (*webhook.DefaultServer)(nil)

// declare adds a webhook to those that the server installs, if it can do that.
func (blder *WebhookBuilder[T]) declare(h webhook.Hook) error {
	if server, ok := blder.mgr.GetWebhookServer().(declarer); ok {
		return server.Declare(h)
	}
	return nil
}
