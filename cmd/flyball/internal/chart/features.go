package chart

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The conditions of the parts of a chart.
const (
	onWebhook      = ".Values.webhook.enabled"
	onMetrics      = ".Values.metrics.enabled"
	onCertManager  = ".Values.certManager.enabled"
	onWebhookCerts = "and " + onWebhook + " " + onCertManager
	onMetricsCerts = "and " + onMetrics + " " + onCertManager
)

// features are the features that the Deployment of the manager enables.
type features struct {
	webhook     bool // a webhook is configured
	metrics     bool // metrics are served
	metricsPort string
	webhookPort string
	// The volumes, and their Secrets, of certificates.
	webhookVolume, metricsVolume string
	webhookSecret, metricsSecret string
}

// findFeatures finds the enabled features.
func (m *maker) findFeatures() {
	_, webhookCert := m.argument("--webhook-cert-path")
	_, metricsCert := m.argument("--metrics-cert-path")
	m.webhookVolume, m.webhookSecret = m.volume(webhookCert)
	m.metricsVolume, m.metricsSecret = m.volume(metricsCert)
	if _, address := m.argument("--metrics-bind-address"); address != "" && address != "0" {
		m.metrics, m.metricsPort = true, address[strings.LastIndex(address, ":")+1:]
	}
	for _, o := range m.all {
		if len(clientConfigs(o)) > 0 {
			m.webhook = true
		}
		if o.kind() == "Service" && m.isWebhookService(o) {
			for _, port := range items(o.root, "spec", "ports") {
				m.webhookPort = m.numberOf(cmp.Or(value(port, "targetPort"), value(port, "port")))
			}
		}
	}
}

// argument returns the index of the last argument NAME=VALUE of the manager, and the value.
func (m *maker) argument(name string) (at int, found string) {
	at = -1
	for i, argument := range items(m.container(), "args") {
		if v, ok := strings.CutPrefix(argument.Value, name+"="); ok {
			at, found = i, v
		}
	}
	return at, found
}

// volume returns the volume that is mounted at a path, and its Secret.
func (m *maker) volume(path string) (name, secret string) {
	for _, mount := range items(m.container(), "volumeMounts") {
		if path == "" || strings.TrimSuffix(value(mount, "mountPath"), "/") != strings.TrimSuffix(path, "/") {
			continue
		}
		for _, volume := range items(m.pod(), "volumes") {
			if value(volume, "name") == value(mount, "name") && get(volume, "secret") != nil {
				return value(volume, "name"), value(volume, "secret", "secretName")
			}
		}
	}
	return "", ""
}

// numberOf returns the number of a port of the manager that may be given by its name.
func (m *maker) numberOf(port string) string {
	for _, p := range items(m.container(), "ports") {
		if value(p, "name") == port {
			return value(p, "containerPort")
		}
	}
	return port
}

// clientConfigs returns the client configurations of an object's webhooks.
func clientConfigs(o *object) (all []*yaml.Node) {
	switch o.kind() {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		for _, webhook := range items(o.root, "webhooks") {
			if config := get(webhook, "clientConfig"); get(config, "service") != nil {
				all = append(all, config)
			}
		}
	case "CustomResourceDefinition":
		if config := get(o.root, "spec", "conversion", "webhook", "clientConfig"); get(config, "service") != nil {
			all = append(all, config)
		}
	}
	return all
}

// isWebhookService reports whether webhooks refer to a Service.
func (m *maker) isWebhookService(service *object) bool {
	return slices.ContainsFunc(m.all, func(o *object) bool {
		return slices.ContainsFunc(clientConfigs(o), func(config *yaml.Node) bool {
			return value(config, "service", "name") == service.name() && m.selectsManager(get(service.root, "spec", "selector"))
		})
	})
}

// isMetricsService reports whether a Service selects the metrics port.
func (m *maker) isMetricsService(service *object) bool {
	return m.metrics && m.selectsManager(get(service.root, "spec", "selector")) && slices.ContainsFunc(items(service.root, "spec", "ports"),
		func(port *yaml.Node) bool {
			return m.numberOf(cmp.Or(value(port, "targetPort"), value(port, "port"))) == m.metricsPort
		})
}

// selectsManager reports whether a mapping of labels selects the pods of the manager.
func (m *maker) selectsManager(selector *yaml.Node) bool {
	labels := get(m.deployment.root, "spec", "template", "metadata", "labels")
	if selector == nil || len(selector.Content) == 0 {
		return false
	}
	for i := 0; i+1 < len(selector.Content); i += 2 {
		if value(labels, selector.Content[i].Value) != selector.Content[i+1].Value {
			return false
		}
	}
	return true
}

// condition returns the condition for the whole template of an object, or "".
func (m *maker) condition(o *object) string {
	switch o.kind() {
	case "CustomResourceDefinition":
		return ".Values.crd.enabled"
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		if len(clientConfigs(o)) > 0 {
			return onWebhook
		}
	case "Service":
		switch {
		case m.isWebhookService(o):
			return onWebhook
		case m.isMetricsService(o):
			return onMetrics
		}
	case "ServiceAccount":
		if o.name() == m.account {
			return ".Values.serviceAccount.enabled"
		}
	case "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding":
		return m.conditionOfRole(o)
	case "Certificate":
		switch secret := value(o.root, "spec", "secretName"); {
		case secret != "" && secret == m.webhookSecret:
			return onWebhookCerts
		case secret != "" && secret == m.metricsSecret:
			return onMetricsCerts
		}
		return onCertManager
	case "Issuer", "ClusterIssuer":
		if o.group() == "cert-manager.io" {
			return onCertManager
		}
	case "ServiceMonitor":
		return "and .Values.prometheus.enabled " + onMetrics
	case "NetworkPolicy":
		return m.conditionOfPolicy(o)
	}
	return ""
}

// conditionOfRole returns the condition of a role or a binding: roles for metrics, and helper roles without a binding,
// which are for the users of the operator's kinds.
func (m *maker) conditionOfRole(o *object) string {
	role := o
	if strings.HasSuffix(o.kind(), "Binding") {
		i := slices.IndexFunc(m.all, func(r *object) bool {
			return r.kind() == value(o.root, "roleRef", "kind") && r.name() == value(o.root, "roleRef", "name")
		})
		if i < 0 {
			return ""
		}
		role = m.all[i]
	}
	switch {
	case m.metrics && isForMetrics(role):
		return onMetrics
	case role == o && !slices.ContainsFunc(m.all, func(b *object) bool {
		return strings.HasSuffix(b.kind(), "Binding") && value(b.root, "roleRef", "kind") == o.kind() &&
			value(b.root, "roleRef", "name") == o.name()
	}):
		return ".Values.rbac.helpers.enabled"
	}
	return ""
}

// isForMetrics reports whether a role only permits reading metrics or reviewing access to them.
func isForMetrics(role *object) bool {
	rules := items(role.root, "rules")
	for _, rule := range rules {
		for _, path := range items(rule, "nonResourceURLs") {
			if path.Value != "/metrics" {
				return false
			}
		}
		for _, resource := range items(rule, "resources") {
			if resource.Value != "tokenreviews" && resource.Value != "subjectaccessreviews" {
				return false
			}
		}
	}
	return len(rules) > 0
}

// conditionOfPolicy returns the condition of a NetworkPolicy, which may concern the port of a feature.
func (m *maker) conditionOfPolicy(o *object) string {
	const on = ".Values.networkPolicy.enabled"
	for _, rule := range items(o.root, "spec", "ingress") {
		for _, port := range items(rule, "ports") {
			switch number := m.numberOf(value(port, "port")); {
			case m.metrics && number == m.metricsPort:
				return "and " + on + " " + onMetrics
			case m.webhook && number == m.webhookPort:
				return "and " + on + " " + onWebhook
			}
		}
	}
	return on
}
