package operator

import (
	"encoding/base64"
	"fmt"
	"os"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"aicr/sandbox/pki"
	"aicr/sandbox/programs"
)

const (
	webhookService = "dynamo-operator-webhook-service"
	webhookSecret  = "webhook-server-cert"
)

// webhook is by what an API server has Dynamo's operator convert what it defines: a Service
// before the operator's pod, and a certificate.
type webhook struct{ authority, certificate, key []byte }

// certify makes the certificate of the webhook; nil: there is one version, or none.
func (o *Options) certify() (*webhook, error) {
	if len(o.GraphAPIs) < 2 {
		return nil, nil
	}
	const inside = webhookService + "." + dynamoNamespace
	s := pki.Subject{File: "dynamo-webhook", User: webhookService, Names: []string{inside + ".svc", inside}}
	if _, err := o.Authority.Issue(s); err != nil {
		return nil, err
	}
	certificate, err := os.ReadFile(o.Authority.CertificateFile(s.File))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(o.Authority.KeyFile(s.File))
	if err != nil {
		return nil, fmt.Errorf("the key of the webhook: %w", err)
	}
	return &webhook{o.Authority.CertificatePEM(), certificate, key}, nil
}

// mount gives the operator's Deployment the certificate.
func (h *webhook) mount(operator fields) {
	if h == nil {
		return
	}
	pod := operator["spec"].(fields)["template"].(fields)["spec"].(fields)
	pod["volumes"] = []any{fields{"name": "cert", "secret": fields{"secretName": webhookSecret}}}
	container := pod["containers"].([]any)[0].(fields)
	container["volumeMounts"] = []any{fields{"name": "cert", "mountPath": programs.WebhookCertificate, "readOnly": true}}
}

// objects are the Secret and the Service.
func (h *webhook) objects() []fields {
	if h == nil {
		return nil
	}
	in := base64.StdEncoding.EncodeToString
	named := func(name string) fields { return fields{"name": name, "namespace": dynamoNamespace} }
	port := fields{"name": "webhook", "port": int64(443), "targetPort": int64(programs.WebhookPort), "protocol": "TCP"}
	return []fields{
		{"apiVersion": "v1", "kind": "Secret", "metadata": named(webhookSecret), "type": "kubernetes.io/tls",
			"data": fields{"ca.crt": in(h.authority), "tls.crt": in(h.certificate), "tls.key": in(h.key)}},
		{"apiVersion": "v1", "kind": "Service", "metadata": named(webhookService),
			"spec": fields{"selector": fields{"app": dynamoOperator}, "ports": []any{port}}},
	}
}

// conversion is what the definitions say of it.
func (h *webhook) conversion() *apiextensions.CustomResourceConversion {
	to := &apiextensions.ServiceReference{Namespace: dynamoNamespace, Name: webhookService, Path: new(programs.ConvertPath)}
	return &apiextensions.CustomResourceConversion{
		Strategy: apiextensions.WebhookConverter,
		Webhook: &apiextensions.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig:             &apiextensions.WebhookClientConfig{CABundle: h.authority, Service: to},
		},
	}
}
