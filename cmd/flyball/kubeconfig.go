package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	certificates "k8s.io/client-go/kubernetes/typed/certificates/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"flyball.dev/internal/kubeconfig"
)

// signTimeout is how long a control plane may take to sign a request.
const signTimeout = 30 * time.Second

// userKubeconfig returns the command "flyball kubeconfig".
func userKubeconfig() *cobra.Command {
	var admin, output, user string
	var groups []string
	cmd := &cobra.Command{
		Use:   "kubeconfig --user NAME",
		Short: "Make a kubeconfig for another user of a running control plane",
		Long: `Make a kubeconfig for another user of a running control plane, to try the effect of roles
and bindings.

It creates a CertificateSigningRequest as the administrator, approves it, and writes a
kubeconfig with the certificate and a new private key.`,
		Example: `  flyball kubeconfig --user ann --group staff --output ann.kubeconfig
  kubectl --kubeconfig ann.kubeconfig auth whoami`,
		Args: noArgs("the user is named by --user"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			content, err := kubeconfigFor(cmd.Context(), cmd.ErrOrStderr(), admin, user, groups)
			if err != nil {
				return err
			}
			return writeKubeconfig(cmd.OutOrStdout(), output, content)
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "the name of the user")
	cmd.Flags().StringArrayVar(&groups, "group", nil, "a group of the user; may be repeated")
	addAdministrator(cmd.Flags(), &admin)
	cmd.Flags().StringVarP(&output, "output", "o", "", "the file to write; by default standard output")
	_ = cmd.MarkFlagRequired("user") // the flag exists
	refuseEmpty(cmd.Flags(), "user", "output")
	return cmd
}

// writeKubeconfig writes a kubeconfig either to a file with mode 0600, or to out.
func writeKubeconfig(out io.Writer, file string, content []byte) error {
	if file != "" {
		return kubeconfig.Write(file, content)
	}
	_, err := out.Write(content)
	return err
}

// kubeconfigFor returns a kubeconfig for a user of the cluster in the administrator's kubeconfig. Warnings go to errs.
func kubeconfigFor(ctx context.Context, errs io.Writer, admin, user string, groups []string) ([]byte, error) {
	config, cfg, err := administrator(admin, errs)
	if err != nil {
		return nil, err
	}
	client, err := certificates.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	key, request, err := newRequest(user, groups)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	certificate, err := sign(ctx, client.CertificateSigningRequests(), request)
	if utilnet.IsConnectionRefused(err) {
		return nil, kubeconfig.Unreachable(*config, "", cfg, err)
	}
	if err != nil {
		return nil, err
	}
	current := config.Contexts[config.CurrentContext]
	for name := range config.Clusters {
		if name != current.Cluster {
			delete(config.Clusters, name)
		}
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: certificate, ClientKeyData: key}}
	config.CurrentContext = user
	config.Contexts = map[string]*clientcmdapi.Context{
		user: {Cluster: current.Cluster, AuthInfo: user, Namespace: current.Namespace}}
	return clientcmd.Write(*config)
}

// addAdministrator adds the flag for the kubeconfig that [administrator] reads.
func addAdministrator(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "kubeconfig", "", "the administrator's kubeconfig (default $KUBECONFIG, or "+kubeconfig.DefaultPath+")")
	refuseEmpty(flags, "kubeconfig")
}

// administrator returns the content of an administrator's kubeconfig, and the configuration of a client that prints
// warnings to errs. The default file is $KUBECONFIG, or the kubeconfig of a control plane that was started in this folder.
func administrator(file string, errs io.Writer) (*clientcmdapi.Config, *restclient.Config, error) {
	file = cmp.Or(file, os.Getenv(clientcmd.RecommendedConfigPathEnvVar), kubeconfig.DefaultPath)
	content, err := clientcmd.LoadFromFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("there is no kubeconfig %s: start a control plane with flyball up, "+
			"or name the administrator's kubeconfig with --kubeconfig", file)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the kubeconfig %s: %w", file, err)
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*content, nil).ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	cfg.WarningHandler = newWarnings(errs)
	return content, cfg, nil
}

// newRequest returns a new private key and a certificate request for a user, both in PEM.
func newRequest(user string, groups []string) (key, request []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: groups}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// sign creates and approves a certificate request, waits until it is signed, and returns the certificate.
func sign(ctx context.Context, requests certificates.CertificateSigningRequestInterface, request []byte) ([]byte, error) {
	csr, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "flyball-kubeconfig-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "FlyballKubeconfig",
		Message: "This CSR was approved by flyball kubeconfig.",
	})
	if csr, err = requests.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	w, err := requests.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", csr.Name).String()})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		switch {
		case !ok:
		case len(csr.Status.Certificate) > 0:
			return csr.Status.Certificate, nil
		default:
			for _, c := range csr.Status.Conditions {
				if c.Type == certificatesv1.CertificateFailed || c.Type == certificatesv1.CertificateDenied {
					return nil, fmt.Errorf("the certificate request %s was not signed: %s", csr.Name, c.Message)
				}
			}
		}
	}
	return nil, fmt.Errorf("the certificate request %s was not signed within %v", csr.Name, signTimeout)
}
