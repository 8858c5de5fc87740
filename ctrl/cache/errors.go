package cache

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/cache/internal/reflector"
)

// reason classifies an error of a list or watch: by the reason in the server's status, or as one of
// Connection, Timeout, Decoding, Ended (a very short watch), Silent (a watch list that did not end
// its initial events) and Unknown. It is a label of flyball_cache_errors_total.
func reason(err error) string {
	var network net.Error
	switch {
	case apierrors.HasStatusCause(err, "ClientWatchDecoding"), errors.Is(err, reflector.ErrNotAnObject):
		return "Decoding"
	case errors.Is(err, reflector.ErrWatchEnded):
		return "Ended"
	case errors.Is(err, reflector.ErrInitialEventsTimeout):
		return "Silent"
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return string(apierrors.ReasonForError(err))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "Timeout"
	case network != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "Connection"
	default:
		return "Unknown"
	}
}

// maxPublicText is the maximum length of a description that publicText returns.
const maxPublicText = 300

// publicText describes an error without revealing the contents of objects or credentials. It
// contains messages of the server and of the network only: other errors may quote what failed to
// decode.
func publicText(err error) string {
	text := reason(err)
	var (
		request *url.Error
		status  apierrors.APIStatus
		op      *net.OpError
		name    *net.DNSError
		cert    *tls.CertificateVerificationError
	)
	if errors.As(err, &request) {
		err = request.Err // without the URL
	}
	switch {
	case text == "Decoding":
	case errors.As(err, &status):
		text += ": " + status.Status().Message
	case errors.As(err, &op):
		text += ": " + op.Error()
	case errors.As(err, &name):
		text += ": " + name.Error()
	case errors.As(err, &cert):
		text += ": " + cert.Error()
	}
	if len(text) > maxPublicText {
		text = strings.ToValidUTF8(text[:maxPublicText], "") + "..."
	}
	return text
}
