package plan_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/lab"
	"flyball.dev/plan"
	"flyball.dev/record"
)

// auditAll makes the API server of a source record all requests.
const auditAll = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"

// source is a control plane to plan for.
type source struct {
	*controlplane.ControlPlane
	client.Client
	requests *lines
}

// lines is a writer of an audit log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

// writes returns the requests that are no reads, of users other than the test's and the controllers'.
func (l *lines) writes(user string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, `"username":"`+user+`"`) && !strings.Contains(line, `"verb":"get"`) && !strings.Contains(line, `"verb":"list"`) &&
			!strings.Contains(line, `"verb":"watch"`) {
			all = append(all, line)
		}
	}
	return all
}

// newSource starts a control plane with objects.
func newSource(t *testing.T, objects ...client.Object) *source {
	t.Helper()
	s := &source{requests: &lines{}}
	var err error
	s.ControlPlane, err = controlplane.Start(context.Background(), controlplane.Options{
		Audit: auditlog.Options{Policy: []byte(auditAll), Writer: s.requests}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if s.Client, err = client.New(s.Config(), client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := s.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// planner is the user that reads a source.
const planner = "planner"

// moment reads the source, as a user who may do everything.
func (s *source) moment(t *testing.T) *record.Moment {
	t.Helper()
	cfg, err := s.UserConfig(planner, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	m, err := record.ReadCluster(t.Context(), cfg, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if writes := s.requests.writes(planner); len(writes) > 0 {
		t.Errorf("the source was written: %s", writes)
	}
	return m
}

// mirror is an operator: it makes a Deployment for each ConfigMap with the label app.
type mirror struct {
	client.Client
	image string
}

func (m *mirror) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var cm corev1.ConfigMap
	if err := m.Get(ctx, req.NamespacedName, &cm); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if cm.Labels["app"] == "" || !cm.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}}
	_, err := ctrl.CreateOrUpdate(ctx, m.Client, d, func() error {
		labels := map[string]string{"app": cm.Labels["app"]}
		replicas := int32(len(cm.Data))
		d.Spec.Replicas = &replicas
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: m.image}}
		return ctrl.SetControllerReference(&cm, d, m.Scheme())
	})
	return reconcile.Result{}, err
}

// startMirror returns the start of the operator with an image.
func startMirror(image string) func(*rest.Config) (manager.Manager, error) {
	return func(cfg *rest.Config) (manager.Manager, error) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: clientgoscheme.Scheme, Metrics: server.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true)}})
		if err != nil {
			return nil, err
		}
		m := &mirror{mgr.GetClient(), image}
		return mgr, ctrl.NewControllerManagedBy(mgr).Named("mirror").For(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Complete(m)
	}
}

func configMap(name string, keys ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}}, Data: map[string]string{}}
	for _, k := range keys {
		cm.Data[k] = "x"
	}
	return cm
}

// TestPlan: the plan has the change, what the operator does and what the controllers of Kubernetes do, with their authors.
func TestPlan(t *testing.T) {
	s := newSource(t, configMap("old", "a"))
	p := plan.Run(t, plan.Options{
		Moment:   s.moment(t),
		Operator: plan.Operator{Start: startMirror("nginx:1")},
		Change:   []lab.Step{lab.Create(configMap("web", "a", "b"))},
	})
	p.Source = ""
	plan.Golden(t, p, "testdata/create.txt")
}

// find returns the change of an object.
func find(t *testing.T, p *plan.Plan, kind, name string) *plan.Change {
	t.Helper()
	for i, c := range p.Changes {
		if c.Kind == kind && c.Name == name {
			return &p.Changes[i]
		}
	}
	t.Errorf("no change of %s %s: %s", kind, name, text(t, p))
	return &plan.Change{}
}

func text(t *testing.T, p *plan.Plan) string {
	t.Helper()
	var b strings.Builder
	if err := p.WriteText(&b, true); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// step returns a step without a name.
func step(do func(ctx context.Context, c client.Client) error) []lab.Step {
	return []lab.Step{{Name: "change", Do: do}}
}

// TestChanges: what a webhook's successor, a policy, a quota, server-side apply and the garbage collector do to a change is in
// the plan, and the source stays as it is.
func TestChanges(t *testing.T) {
	s := newSource(t, configMap("web", "a"), configMap("quiet", "a"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key"}, StringData: map[string]string{"password": "hunter2"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "small"}})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "small", Name: "few"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/deployments.apps": resource.MustParse("0"), "count/configmaps": resource.MustParse("2")}}}))
	applied := corev1ac.ConfigMap("shared", "default").WithData(map[string]string{"mode": "slow"})
	must(s.Apply(t.Context(), applied, client.FieldOwner("somebody")))
	start := startMirror("nginx:1")
	stop := s.run(t, start) // the Deployments exist
	s.await(t, "web", "quiet")
	stop()
	moment := s.moment(t)

	for name, tt := range map[string]struct {
		change []lab.Step
		o      plan.Options
		check  func(t *testing.T, p *plan.Plan)
	}{
		"nothing": {check: func(t *testing.T, p *plan.Plan) {
			if p.Different() || len(p.Drift) > 0 {
				t.Errorf("%s", text(t, p))
			}
		}},
		"update": {change: []lab.Step{lab.Update(configMap("web"), func(c *corev1.ConfigMap) { c.Data["b"] = "y" })}, check: func(t *testing.T, p *plan.Plan) {
			c := find(t, p, "Deployment", "web")
			i := slices.IndexFunc(c.Fields, func(f plan.Field) bool { return f.Path == "spec.replicas" })
			if i < 0 || c.Fields[i].String() != "1 → 2" || c.Action != plan.Update || c.Writes[0].User != "operator" || c.Writes[0].Because != "updated ConfigMap default/web" {
				t.Errorf("%+v", c)
			}
			find(t, p, "Pod", "web-"+"54555956cd"+"-*")
		}},
		"installation": {o: plan.Options{Install: []lab.Step{lab.Create(configMap("web")), lab.Create(configMap("new", "a"))}}, check: func(t *testing.T, p *plan.Plan) {
			if len(p.Steps) != 1 || p.Steps[0].Reason != "AlreadyExists" || len(p.Drift) > 0 {
				t.Errorf("%s", text(t, p))
			}
			if c := find(t, p, "Deployment", "new"); len(c.Writes) == 0 || c.Writes[0].User != "operator" {
				t.Errorf("%+v", c)
			}
		}},
		"garbage collection": {change: []lab.Step{lab.Remove(configMap("web"))}, check: func(t *testing.T, p *plan.Plan) {
			for _, kind := range []string{"ConfigMap", "Deployment"} {
				if c := find(t, p, kind, "web"); c.Action != plan.Delete {
					t.Errorf("%+v", c)
				}
			}
			if c := find(t, p, "Deployment", "web"); len(c.Writes) == 0 || !strings.Contains(c.Writes[len(c.Writes)-1].User, "garbage-collector") {
				t.Errorf("the Deployment was deleted by %+v", c.Writes)
			}
			if strings.Contains(text(t, p), "quiet") {
				t.Errorf("the plan has more: %s", text(t, p))
			}
		}},
		"conflict": {change: step(func(ctx context.Context, c client.Client) error {
			return c.Apply(ctx, corev1ac.ConfigMap("shared", "default").WithData(map[string]string{"mode": "fast"}), client.FieldOwner("kubectl"))
		}), check: func(t *testing.T, p *plan.Plan) {
			if s := p.Steps[0]; s.Reason != "Conflict" || !strings.Contains(s.Error, `conflict with "somebody"`) || len(p.Changes) > 0 || !p.Different() {
				t.Errorf("%s", text(t, p))
			}
		}},
		"quota": {change: step(func(ctx context.Context, c client.Client) error {
			cm := configMap("web", "a")
			cm.Namespace = "small"
			return c.Create(ctx, cm)
		}), check: func(t *testing.T, p *plan.Plan) {
			if len(p.Refused) != 1 || p.Refused[0].User != "operator" || p.Refused[0].Object != "small deployments.apps/web" || p.Refused[0].Reason != "Forbidden" ||
				!strings.Contains(p.Refused[0].Message, "exceeded quota: few") || p.Refused[0].Times < 2 {
				t.Errorf("%+v", p.Refused)
			}
			find(t, p, "ConfigMap", "web")
		}},
		"a policy": {change: append(denyAll(), step(func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, configMap("denied"))
		})...), check: func(t *testing.T, p *plan.Plan) {
			if s := p.Steps[2]; s.Reason != "Invalid" || !strings.Contains(s.Error, "nobody may be called denied") {
				t.Errorf("%+v", p.Steps)
			}
		}},
		"secrets": {change: step(func(ctx context.Context, c client.Client) error {
			key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key"}}
			if err := c.Patch(ctx, key, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"password":"hunter3"}}`))); err != nil {
				return err
			}
			return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}, StringData: map[string]string{"password": "hunter2"}})
		}), check: func(t *testing.T, p *plan.Plan) {
			content, err := json.Marshal(p)
			must(err)
			for _, secret := range []string{"hunter2", "hunter3", "aHVudGVyMg==", "aHVudGVyMw=="} {
				if strings.Contains(string(content)+text(t, p), secret) {
					t.Errorf("the plan has the secret %s: %s", secret, content)
				}
			}
			if f := find(t, p, "Secret", "key").Fields; len(f) != 1 || f[0].Path != "data.password" || f[0].After != plan.SensitiveValue {
				t.Errorf("%+v", f)
			}
		}},
		"a new version": {o: plan.Options{From: plan.Operator{Start: start}, Operator: plan.Operator{Start: startMirror("nginx:2")}}, check: func(t *testing.T, p *plan.Plan) {
			for _, name := range []string{"web", "quiet"} {
				f := find(t, p, "Deployment", name).Fields
				if !slices.ContainsFunc(f, func(f plan.Field) bool { return f.Path == "spec.template.spec.containers[app].image" }) {
					t.Errorf("%+v", f)
				}
			}
			if len(p.Drift) > 0 {
				t.Errorf("drift: %s", text(t, p))
			}
		}},
		"without a change": {o: plan.Options{Operator: plan.Operator{Start: startMirror("nginx:3")}}, check: func(t *testing.T, p *plan.Plan) {
			find(t, p, "Deployment", "web")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := tt.o
			o.Moment, o.Change = moment, tt.change
			if o.Operator.Start == nil {
				o.Operator.Start = start
			}
			if o.Change == nil && o.From.Start == nil && name == "nothing" {
				o.Change = []lab.Step{{Name: "nothing", Do: func(context.Context, client.Client) error { return nil }}}
			}
			p := plan.Run(t, o)
			tt.check(t, p)
			for _, c := range p.Changes {
				if c.Uncertain {
					t.Errorf("%s is uncertain: %s", c.Name, text(t, p))
				}
			}
		})
	}
	for _, user := range []string{planner, "operator", "user"} {
		if writes := s.requests.writes(user); len(writes) > 0 {
			t.Errorf("the source was written: %s", writes)
		}
	}
}

// denyAll returns the steps that make a policy.
func denyAll() []lab.Step {
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "denied"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{"CREATE"}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}}},
		Validations: []admissionv1.Validation{{Expression: "object.metadata.name != 'denied'", Message: "nobody may be called denied"}}}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "denied"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "denied", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	return []lab.Step{lab.Create(policy), lab.Create(binding)}
}

// run runs an operator on the source until the returned function is called.
func (s *source) run(t *testing.T, start func(*rest.Config) (manager.Manager, error)) (stop func()) {
	t.Helper()
	mgr, err := start(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// await waits until Deployments are available.
func (s *source) await(t *testing.T, names ...string) {
	t.Helper()
	c, err := client.NewWithWatch(s.Config(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(t.Context(), &appsv1.DeploymentList{}, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	for e := range w.ResultChan() {
		if d, ok := e.Object.(*appsv1.Deployment); ok && d.Status.AvailableReplicas > 0 && slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Reason == "NewReplicaSetAvailable"
		}) {
			delete(missing, d.Name)
		}
		if len(missing) == 0 {
			return
		}
	}
	t.Fatal("the watch has ended")
}

// denyWebhook is a webhook that nobody serves.
func denyWebhook() client.Object {
	fail, none := admissionv1.Fail, admissionv1.SideEffectClassNone
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "deny"}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "deny.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "full"}},
		ClientConfig:   admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "deny"}},
		Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"CREATE"},
			Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}}}}
}
