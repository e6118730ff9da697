package graph

import "aicr/internal/kube"

const rbacVersion = "rbac.authorization.k8s.io/v1"

// accountManifest is who the load is.
func accountManifest(s *Settings) kube.Object {
	return manifest("v1", "ServiceAccount", s.Namespace, s.Names().Load, s, PartLoad, nil)
}

// roleManifest is what the load may do in its namespace.
func roleManifest(s *Settings) kube.Object {
	inNamespace, _ := LoadRules(s)
	return manifest(rbacVersion, "Role", s.Namespace, s.Names().Load, s, PartLoad, fields{"rules": ruleFields(inNamespace)})
}

func roleBindingManifest(s *Settings) kube.Object {
	return manifest(rbacVersion, "RoleBinding", s.Namespace, s.Names().Load, s, PartLoad, bound(s, "Role"))
}

// clusterRoleManifest is what the load may read of its one node.
func clusterRoleManifest(s *Settings) kube.Object {
	_, inCluster := LoadRules(s)
	return manifest(rbacVersion, "ClusterRole", "", s.Names().Load, s, PartLoad, fields{"rules": ruleFields(inCluster)})
}

func clusterRoleBindingManifest(s *Settings) kube.Object {
	return manifest(rbacVersion, "ClusterRoleBinding", "", s.Names().Load, s, PartLoad, bound(s, "ClusterRole"))
}

// bound gives the load the role of its name.
func bound(s *Settings, kind string) fields {
	name := s.Names().Load
	return fields{
		"roleRef":  fields{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
		"subjects": []any{fields{"kind": "ServiceAccount", "name": name, "namespace": s.Namespace}},
	}
}

func ruleFields(rules []LoadRule) (all []any) {
	for _, r := range rules {
		one := fields{"apiGroups": row(r.Group), "resources": row(r.Resource), "verbs": row(r.Verbs...)}
		if r.Name != "" {
			one["resourceNames"] = row(r.Name)
		}
		all = append(all, one)
	}
	return all
}
