package envtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/internal/reserve"
	"flyball.dev/internal/selfsigned"
)

// WebhookInstallOptions are the options for installing webhooks.
type WebhookInstallOptions struct {
	// Paths are files and directories of webhook configurations. Other objects in them are ignored.
	Paths []string

	// MutatingWebhooks and ValidatingWebhooks are configurations to install. PrepWithoutInstalling adds
	// those in Paths, and connects all to the local server.
	MutatingWebhooks   []*admissionv1.MutatingWebhookConfiguration
	ValidatingWebhooks []*admissionv1.ValidatingWebhookConfiguration

	// IgnoreSchemeConvertible gives all definitions a conversion webhook, also definitions without a
	// type in the scheme that has conversions.
	IgnoreSchemeConvertible bool

	// IgnoreErrorIfPathMissing ignores paths that do not exist.
	IgnoreErrorIfPathMissing bool

	// LocalServingHost and LocalServingPort are where the webhooks have to be served; by default at a
	// free port of 127.0.0.1, to which PrepWithoutInstalling sets them. On Linux, the system gives that port
	// to no other program.
	LocalServingHost string
	LocalServingPort int

	// LocalServingCertDir is a temporary directory with the certificate of the webhook server and its
	// key, tls.crt and tls.key. It is made by PrepWithoutInstalling and removed by Cleanup. It is empty
	// in an environment in memory.
	LocalServingCertDir string

	// LocalServingCAData is what clients verify that certificate with.
	LocalServingCAData []byte

	// LocalServingHostExternalName is the host by which the API server reaches the webhooks, if not
	// LocalServingHost.
	LocalServingHostExternalName string

	// MaxTime is how long to wait for the configurations, 10 s by default, and PollInterval how often
	// to look, 100 ms by default.
	MaxTime      time.Duration
	PollInterval time.Duration

	network     *memoryNetwork // nil for sockets
	port        io.Closer      // what reserves LocalServingPort for as long as the options are reachable
	madeDir     string         // what Cleanup removes
	certificate *tls.Certificate
	sources     map[client.Object]string // of the configurations that were read
}

// ServerOptions returns the options of a webhook server that serves where the API server calls it:
// host, port and directory of the certificate, or in an environment in memory a listener and the
// certificate. Options that the server needs besides can be added; functions of TLSOpts must be
// appended. Each server needs options of its own. It is Flyball's own.
func (o *WebhookInstallOptions) ServerOptions() webhook.Options {
	if o.network == nil {
		return webhook.Options{Host: o.LocalServingHost, Port: o.LocalServingPort, CertDir: o.LocalServingCertDir}
	}
	certificate := o.certificate
	return webhook.Options{
		Listener: o.network.listen(net.JoinHostPort(o.LocalServingHost, strconv.Itoa(o.LocalServingPort))),
		TLSOpts: []func(*tls.Config){func(config *tls.Config) {
			config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }
		}},
	}
}

// PrepWithoutInstalling chooses the address of the webhook server, makes its certificate, reads the
// configurations in Paths and connects all configurations to the server.
func (o *WebhookInstallOptions) PrepWithoutInstalling() error {
	if _, err := o.hostPort(); err != nil {
		return err
	}
	if err := o.makeCertificate(); err != nil {
		return err
	}
	if err := o.read(); err != nil {
		return err
	}
	return o.ModifyWebhookDefinitions()
}

// ModifyWebhookDefinitions makes the API server call the webhooks at the local server, and verify
// it with LocalServingCAData: the service of a webhook is replaced by a URL with the same path. A
// webhook with neither a URL nor a service with a path is an error.
func (o *WebhookInstallOptions) ModifyWebhookDefinitions() error {
	hostPort, err := o.hostPort()
	if err != nil {
		return err
	}
	connect := func(configuration client.Object, kind, name string, c *admissionv1.WebhookClientConfig) error {
		c.CABundle = o.LocalServingCAData
		switch {
		case c.Service != nil && c.Service.Path != nil && *c.Service.Path != "":
			url := "https://" + hostPort + "/" + strings.TrimPrefix(*c.Service.Path, "/")
			c.URL, c.Service = &url, nil
		case c.URL == nil:
			err := fmt.Errorf("webhook %q of %s %q has no handler: set clientConfig.service.path to the path at which the webhook is registered",
				name, kind, configuration.GetName())
			if file := o.sources[configuration]; file != "" {
				err = fmt.Errorf("%s: %w", file, err)
			}
			return err
		}
		return nil
	}
	for _, configuration := range o.MutatingWebhooks {
		for i := range configuration.Webhooks {
			w := &configuration.Webhooks[i]
			if err := connect(configuration, "MutatingWebhookConfiguration", w.Name, &w.ClientConfig); err != nil {
				return err
			}
		}
	}
	for _, configuration := range o.ValidatingWebhooks {
		for i := range configuration.Webhooks {
			w := &configuration.Webhooks[i]
			if err := connect(configuration, "ValidatingWebhookConfiguration", w.Name, &w.ClientConfig); err != nil {
				return err
			}
		}
	}
	return nil
}

// memoryPort is the port of webhooks in memory.
const memoryPort = 9443

// hostPort returns the address by which the API server reaches the webhooks. It chooses one if there
// is none yet.
func (o *WebhookInstallOptions) hostPort() (string, error) {
	if o.LocalServingHost == "" {
		o.LocalServingHost = "127.0.0.1"
	}
	if o.LocalServingPort == 0 && o.network != nil {
		o.LocalServingPort = memoryPort
	}
	if o.LocalServingPort == 0 {
		port, held, err := reserve.Port(o.LocalServingHost)
		if err != nil {
			return "", fmt.Errorf("unable to find a free port for serving webhooks on LocalServingHost %s: %w", o.LocalServingHost, err)
		}
		o.LocalServingPort, o.port = port, held
	}
	host := o.LocalServingHostExternalName
	if host == "" {
		host = o.LocalServingHost
	}
	return net.JoinHostPort(host, strconv.Itoa(o.LocalServingPort)), nil
}

// certificateLifetime is longer than a test runs, also in virtual time.
const certificateLifetime = 10 * 365 * 24 * time.Hour

// makeCertificate makes the certificate of the webhook server, and writes its files unless all is
// in memory.
func (o *WebhookInstallOptions) makeCertificate() error {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	for _, host := range []string{o.LocalServingHost, o.LocalServingHostExternalName} {
		if host != "" {
			hosts = append(hosts, host)
		}
	}
	pair, err := selfsigned.New("envtest-webhook", certificateLifetime, hosts)
	if err != nil {
		return fmt.Errorf("unable to make the certificate of the webhook server: %w", err)
	}
	certificate, key, err := pair.PEM()
	if err != nil {
		return fmt.Errorf("unable to make the certificate of the webhook server: %w", err)
	}
	o.LocalServingCAData, o.certificate = pair.CAPEM(), pair.Certificate
	if o.network != nil {
		return nil
	}
	if err := o.Cleanup(); err != nil { // of an earlier call
		return err
	}
	const what = "the certificate of the webhook server"
	dir, err := os.MkdirTemp("", "envtest-serving-certs-")
	if err != nil {
		return checkWritable(what, err)
	}
	o.LocalServingCertDir, o.madeDir = dir, dir
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o640); err != nil {
		return checkWritable(what, err)
	}
	return checkWritable(what, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
}

// checkWritable returns an error that says what to do if a file could not be made.
func checkWritable(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("unable to write %s to %s: set the environment variable TMPDIR to a directory that can be written: %w",
		what, os.TempDir(), err)
}

// Cleanup removes LocalServingCertDir, if PrepWithoutInstalling has made it.
func (o *WebhookInstallOptions) Cleanup() error {
	if o.madeDir == "" {
		return nil
	}
	return os.RemoveAll(o.madeDir)
}

// read adds the configurations in Paths, in place of configurations with the same names.
func (o *WebhookInstallOptions) read() error {
	o.sources = map[client.Object]string{}
	for _, path := range o.Paths {
		manifests, err := readManifests("WebhookInstallOptions.Paths", path)
		if errors.Is(err, fs.ErrNotExist) && o.IgnoreErrorIfPathMissing {
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range manifests {
			switch m.Kind {
			case "MutatingWebhookConfiguration":
				configuration := &admissionv1.MutatingWebhookConfiguration{}
				if err := o.decode(&m, configuration); err != nil {
					return err
				}
				o.MutatingWebhooks = replaceOrAppend(o.MutatingWebhooks, configuration)
			case "ValidatingWebhookConfiguration":
				configuration := &admissionv1.ValidatingWebhookConfiguration{}
				if err := o.decode(&m, configuration); err != nil {
					return err
				}
				o.ValidatingWebhooks = replaceOrAppend(o.ValidatingWebhooks, configuration)
			}
		}
	}
	return nil
}

func (o *WebhookInstallOptions) decode(m *manifest, configuration client.Object) error {
	if m.APIVersion != admissionv1.SchemeGroupVersion.String() {
		return m.errorf("a %s of %q, only %s is supported", m.Kind, m.APIVersion, admissionv1.SchemeGroupVersion)
	}
	o.sources[configuration] = m.file
	return m.decode(configuration)
}

// replaceOrAppend replaces the object of the same name.
func replaceOrAppend[T client.Object](list []T, obj T) []T {
	if i := slices.IndexFunc(list, func(other T) bool { return other.GetName() == obj.GetName() }); i >= 0 {
		list[i] = obj
		return list
	}
	return append(list, obj)
}

// Install prepares the webhooks, if that is not done yet, creates the configurations, or updates
// those that exist, and waits until they can be read.
func (o *WebhookInstallOptions) Install(config *rest.Config) error {
	if len(o.LocalServingCAData) == 0 {
		if err := o.PrepWithoutInstalling(); err != nil {
			return err
		}
	}
	all := o.objects()
	if len(all) == 0 {
		return nil
	}
	c, err := newClient(config)
	if err != nil {
		return err
	}
	for _, configuration := range all {
		log().V(1).Info("installing webhook configuration", "name", configuration.GetName())
		if err := ensure(c, configuration); err != nil {
			err = fmt.Errorf("unable to create the webhook configuration %q: %w", configuration.GetName(), err)
			if file := o.sources[configuration]; file != "" {
				err = fmt.Errorf("%s: %w", file, err)
			}
			return err
		}
	}
	return WaitForWebhooks(config, o.MutatingWebhooks, o.ValidatingWebhooks, *o)
}

// objects returns all configurations.
func (o *WebhookInstallOptions) objects() (all []client.Object) {
	for _, configuration := range o.MutatingWebhooks {
		all = append(all, configuration)
	}
	for _, configuration := range o.ValidatingWebhooks {
		all = append(all, configuration)
	}
	return all
}

// WaitForWebhooks waits until the configurations can be read, for options.MaxTime at most.
func WaitForWebhooks(config *rest.Config, mutatingWebhooks []*admissionv1.MutatingWebhookConfiguration,
	validatingWebhooks []*admissionv1.ValidatingWebhookConfiguration, options WebhookInstallOptions) error {
	c, err := newClient(config)
	if err != nil {
		return err
	}
	o := WebhookInstallOptions{MutatingWebhooks: mutatingWebhooks, ValidatingWebhooks: validatingWebhooks}
	missing := o.objects()
	interval, limit := options.PollInterval, options.MaxTime
	if interval == 0 {
		interval = defaultPollInterval
	}
	if limit == 0 {
		limit = defaultMaxTime
	}
	err = wait.PollUntilContextTimeout(context.Background(), interval, limit, true, func(ctx context.Context) (bool, error) {
		for len(missing) > 0 {
			found := missing[0].DeepCopyObject().(client.Object)
			switch err := c.Get(ctx, client.ObjectKeyFromObject(found), found); {
			case apierrors.IsNotFound(err):
				return false, nil
			case err != nil:
				return false, err
			}
			missing = missing[1:]
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("the webhook configuration %q cannot be read: %w", missing[0].GetName(), err)
	}
	return nil
}

// installed returns the scheme of what environments install.
var installed = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, admissionv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // the types of a library do not fit together
		}
	}
	return s
})
