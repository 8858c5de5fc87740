package main

import (
	"context"
	"errors"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"

	"flyball.dev/test/compat/operator/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/authentication"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// rules defaults and validates widgets.
type rules struct{}

func (rules) Default(ctx context.Context, w *api.Widget) error {
	if w.Spec.Color == "" {
		w.Spec.Color = "gray"
	}
	return nil
}

func (rules) ValidateCreate(_ context.Context, w *api.Widget) (admission.Warnings, error) {
	if w.Spec.Size < 0 {
		return nil, errors.New("size must not be negative")
	}
	return admission.Warnings{"widgets are old-fashioned"}, nil
}

func (rules) ValidateUpdate(_ context.Context, before, after *api.Widget) (admission.Warnings, error) {
	if after.Spec.Size < before.Spec.Size {
		return nil, errors.New("widgets do not shrink")
	}
	return nil, nil
}

func (rules) ValidateDelete(context.Context, *api.Widget) (admission.Warnings, error) {
	return nil, nil
}

// addWebhooks registers webhooks of all kinds.
func addWebhooks(mgr manager.Manager) error {
	server := mgr.GetWebhookServer()
	server.Register("/labels", &webhook.Admission{Handler: admission.MultiValidatingHandler(
		admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
			if r.Operation == "DELETE" {
				return webhook.Denied("nothing is deleted")
			}
			return webhook.Allowed("")
		}),
		admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { panic("a bug") }),
	)})
	server.Register("/tokens", &authentication.Webhook{
		Handler: authentication.HandlerFunc(func(_ context.Context, r authentication.Request) authentication.Response {
			if r.Spec.Token != "open sesame" {
				return authentication.Unauthenticated("unknown token", authenticationv1.UserInfo{})
			}
			return authentication.Authenticated("", authenticationv1.UserInfo{Username: "ali"})
		}),
	})
	if ok, err := conversion.IsConvertible(mgr.GetScheme(), &api.Widget{}); err != nil || !ok {
		return errors.Join(errors.New("widgets are not convertible"), err)
	}
	if server.WebhookMux() == nil {
		return http.ErrNotSupported
	}
	return ctrl.NewWebhookManagedBy(mgr, &api.Widget{}).WithDefaulter(rules{}).WithValidator(rules{}).Complete()
}
