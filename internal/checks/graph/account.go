package graph

import (
	"context"
	"fmt"

	"aicr/internal/kube"
)

// NoAccountError says that no account is prepared for the load in a namespace whose users make
// none.
type NoAccountError struct{ Namespace string }

func (e *NoAccountError) Error() string {
	return fmt.Sprintf("there is no ServiceAccount %s in namespace %s, which the load runs as", LoadAccount, e.Namespace)
}

// IsPrepared says whether an administrator has prepared the account of loads in a namespace. Who
// may not look has the roles that go with one, or none: what is missing is told by AskRights.
func IsPrepared(ctx context.Context, api GuardAPI, namespace string) (bool, error) {
	account, err := api.Read(ctx, resAccounts, namespace, LoadAccount)
	switch {
	case kube.IsNotFound(err):
		return false, nil
	case kube.IsForbidden(err):
		return true, nil
	case err != nil:
		return false, err
	}
	return !account.Deleting() && account.Labels()[LabelOwner] == "", nil // a run's own is not for others
}
