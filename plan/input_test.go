package plan_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/ctrl/webhook/admission"
	"flyball.dev/lab"
	"flyball.dev/plan"
	"flyball.dev/record"
)

// operator returns the start of an operator that reconciles ConfigMaps.
func operator(reconciler func(context.Context, client.Client, *corev1.ConfigMap) (reconcile.Result, error)) func(*rest.Config) (manager.Manager, error) {
	return func(cfg *rest.Config) (manager.Manager, error) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: clientgoscheme.Scheme, Metrics: server.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true)}})
		if err != nil {
			return nil, err
		}
		c := mgr.GetClient()
		return mgr, ctrl.NewControllerManagedBy(mgr).Named("maps").For(&corev1.ConfigMap{}).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				var cm corev1.ConfigMap
				if err := c.Get(ctx, req.NamespacedName, &cm); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				return reconciler(ctx, c, &cm)
			}))
	}
}

// TestLoops: a plan that never becomes quiet is the loop that it is, with the writer and the field: one that is as fast as it can be,
// and one that writes every minute.
func TestLoops(t *testing.T) {
	moment := newSource(t, configMap("web", "count")).moment(t)
	for name, pause := range map[string]time.Duration{"hot": 0, "slow": time.Minute} {
		t.Run(name, func(t *testing.T) {
			n := 0
			var last time.Time
			p := plan.Run(t, plan.Options{Moment: moment, Operator: plan.Operator{Start: operator(
				func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (reconcile.Result, error) {
					if cm.Name != "web" {
						return reconcile.Result{}, nil
					}
					if left := pause - time.Since(last); pause > 0 && left > 0 {
						return reconcile.Result{RequeueAfter: left}, nil
					}
					last = time.Now()
					n++
					cm.Data["count"] = fmt.Sprint(n)
					return reconcile.Result{RequeueAfter: pause}, c.Update(ctx, cm)
				})}})
			if !p.Different() || len(p.Loops) != 1 || p.Loops[0].Name != "web" || len(p.Loops[0].Fields) != 1 || p.Loops[0].Fields[0].Path != "data.count" ||
				p.Loops[0].Writes[0].User != "operator" {
				t.Errorf("%+v", p.Loops)
			}
		})
	}
}

// TestIncomplete: what the user may not read is unknown, and what depends on it is not taken for an orphan.
func TestIncomplete(t *testing.T) {
	owner := configMap("web", "a")
	s := newSource(t, owner,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"},
			APIGroups: []string{"", "apps"}, Resources: []string{"secrets", "pods", "deployments", "serviceaccounts"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "some"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "some"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}}})
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "child",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}}
	if err := s.Create(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	cfg, err := s.UserConfig("reader")
	if err != nil {
		t.Fatal(err)
	}
	m, err := record.ReadCluster(t.Context(), cfg, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if writes := s.requests.writes("reader"); len(writes) > 0 {
		t.Errorf("the source was written: %s", writes)
	}
	p := plan.Run(t, plan.Options{Moment: m, Change: []lab.Step{lab.Create(configMap("other"))}})
	if len(p.Changes) != 1 || p.Changes[0].Name != "other" {
		t.Errorf("%s", text(t, p))
	}
	for _, what := range []string{"configmaps", "namespaces", "default configmaps/web"} {
		if !slices.ContainsFunc(p.Unknown, func(u plan.Unknown) bool { return u.What == what }) {
			t.Errorf("%s is not unknown: %+v", what, p.Unknown)
		}
	}
	nobody, err := s.UserConfig("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := record.ReadCluster(t.Context(), nobody, record.Options{}); err == nil || !strings.Contains(err.Error(), "no kind can be read: ") {
		t.Errorf("a user without rights: %v", err)
	}
}

// TestBadInput: there is no plan without an operator that works, and the error says why.
func TestBadInput(t *testing.T) {
	moment := newSource(t).moment(t)
	quiet := operator(func(context.Context, client.Client, *corev1.ConfigMap) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	})
	ends := func(cfg *rest.Config) (manager.Manager, error) {
		mgr, err := quiet(cfg)
		if err != nil {
			return nil, err
		}
		return mgr, mgr.Add(manager.RunnableFunc(func(context.Context) error { return errors.New("no queue") }))
	}
	program := func(lab.Access) (lab.Running, error) { return nil, errors.New("no program") }
	nothing := []lab.Step{{Name: "nothing", Do: func(context.Context, client.Client) error { return nil }}}
	for want, o := range map[string]plan.Options{
		"plan: there is no moment":                   {},
		"plan: there is nothing to plan":             {Moment: moment},
		"plan: an operator has either Start":         {Moment: moment, Operator: plan.Operator{Start: quiet, Program: program}},
		"plan: From needs an Operator":               {Moment: moment, From: plan.Operator{Start: quiet}},
		"plan: From and Operator must both":          {Moment: moment, From: plan.Operator{Start: quiet}, Operator: plan.Operator{Program: program}},
		"plan: the limit 1s must not be shorter":     {Moment: moment, Change: nothing, Rest: 2 * time.Second, Limit: time.Second},
		`there is no controller "gnome-controller"`:  {Moment: moment, Change: nothing, Without: []string{"gnome-controller"}},
		"the operator does not start: no program":    {Moment: moment, Operator: plan.Operator{Program: program}},
		"the operator has ended by itself\nno queue": {Moment: moment, Operator: plan.Operator{Start: ends}},
		"the operator does not start: no manager": {Moment: moment, Operator: plan.Operator{
			Start: func(*rest.Config) (manager.Manager, error) { return nil, errors.New("no manager") }}},
	} {
		if p, err := plan.Make(t.Context(), o); p != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := plan.Make(ctx, plan.Options{Moment: moment, Change: nothing}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// refuser is a webhook that refuses ConfigMaps without data.
type refuser struct{}

func (refuser) ValidateCreate(_ context.Context, cm *corev1.ConfigMap) (admission.Warnings, error) {
	if len(cm.Data) == 0 {
		return nil, errors.New("a ConfigMap without data")
	}
	return nil, nil
}

func (r refuser) ValidateUpdate(ctx context.Context, _, cm *corev1.ConfigMap) (admission.Warnings, error) {
	return r.ValidateCreate(ctx, cm)
}

func (refuser) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}

// TestWebhooks: the operator's own webhook decides about the change, and the one of somebody else is not called, which the plan says.
func TestWebhooks(t *testing.T) {
	s := newSource(t)
	elsewhere := denyWebhook()
	if err := s.Create(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	moment := s.moment(t)
	start := func(cfg *rest.Config) (manager.Manager, error) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: clientgoscheme.Scheme, Metrics: server.Options{BindAddress: "0"},
			WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Install: &webhook.Install{NamePrefix: "plan-"}})})
		if err != nil {
			return nil, err
		}
		return mgr, ctrl.NewWebhookManagedBy(mgr, &corev1.ConfigMap{}).WithValidator(refuser{}).Complete()
	}
	p, err := plan.Make(t.Context(), plan.Options{Moment: moment, Operator: plan.Operator{Start: start}, Rest: time.Second, Once: true,
		Change: []lab.Step{lab.Create(configMap("empty")), lab.Create(configMap("full", "a"))}})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Steps[0]; s.Reason != "Forbidden" || !strings.Contains(s.Error, "a ConfigMap without data") || p.Steps[1].Error != "" {
		t.Errorf("%+v", p.Steps)
	}
	if len(p.Changes) != 1 || p.Changes[0].Name != "full" {
		t.Errorf("%s", text(t, p))
	}
	if !slices.ContainsFunc(p.Unknown, func(u plan.Unknown) bool { return strings.HasPrefix(u.What, "webhook deny.example.com of ") }) {
		t.Errorf("%+v", p.Unknown)
	}
}
