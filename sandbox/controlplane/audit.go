package controlplane

import (
	"errors"
	"os"
	"path/filepath"
)

// The files of the audit, in the folder of the state.
const (
	auditPolicy = "audit-policy.yaml"
	AuditLog    = "audit.log"
)

// EnableAudit has the API server of a folder write down every request, once it is over:
// who, which verb, of what. What is in them is not written.
func EnableAudit(folder string) error {
	const policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules: [{level: Metadata}]\n"
	return os.WriteFile(filepath.Join(folder, auditPolicy), []byte(policy), 0o600)
}

// auditArguments are those of an API server that was told to audit.
func auditArguments() ([]string, error) {
	_, err := os.Stat(auditPolicy)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return []string{"--audit-policy-file=" + auditPolicy, "--audit-log-path=" + AuditLog, "--audit-log-mode=blocking"}, err
}
