module rbac
