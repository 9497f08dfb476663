package main

import (
	"net/http"
	"testing"
)

func TestASecondCreateOfANameIsRefused(t *testing.T) {
	c := startProject(t, "doubles-project")
	metric := map[string]any{"name": "a/metric", "filter": "severity>=ERROR"}
	repositories := "artifactregistry.googleapis.com/v1/projects/doubles-project/locations/us-east5/repositories"
	service := "monitoring.googleapis.com/v3/projects/doubles-project/services"
	objective := map[string]any{
		"goal": 0.99, "rollingPeriod": "2592000s", "serviceLevelIndicator": map[string]any{"requestBased": map[string]any{
			"goodTotalRatio": map[string]any{"goodServiceFilter": "a", "totalServiceFilter": "b"}}},
	}
	for _, each := range []struct {
		what, create, read string
		body               map[string]any
	}{
		{"a metric", "logging.googleapis.com/v2/projects/doubles-project/metrics",
			"logging.googleapis.com/v2/projects/doubles-project/metrics/a%2Fmetric", metric},
		{"a sink", "logging.googleapis.com/v2/projects/doubles-project/sinks?uniqueWriterIdentity=true",
			"logging.googleapis.com/v2/projects/doubles-project/sinks/a-sink",
			map[string]any{"name": "a-sink", "destination": "pubsub.googleapis.com/projects/doubles-project/topics/a"}},
		{"a repository, as gcloud spells it", repositories + "?repositoryId=first", repositories + "/first", map[string]any{"format": "DOCKER"}},
		{"a repository, as Terraform spells it", repositories + "?repository_id=second", repositories + "/second", map[string]any{"format": "DOCKER"}},
		{"an account", "iam.googleapis.com/v1/projects/doubles-project/serviceAccounts",
			"iam.googleapis.com/v1/projects/doubles-project/serviceAccounts/an-account@doubles-project.iam.gserviceaccount.com",
			map[string]any{"accountId": "an-account", "serviceAccount": map[string]any{"displayName": "a"}}},
		{"a role", "iam.googleapis.com/v1/projects/doubles-project/roles", "iam.googleapis.com/v1/projects/doubles-project/roles/a_role",
			map[string]any{"roleId": "a_role", "role": map[string]any{"title": "a"}}},
		{"a service", service + "?serviceId=calls", service + "/calls", map[string]any{"custom": map[string]any{}, "displayName": "calls"}},
		{"an objective", service + "/calls/serviceLevelObjectives?serviceLevelObjectiveId=answers",
			service + "/calls/serviceLevelObjectives/answers", objective},
	} {
		c.want(t, 200, http.MethodPost, each.create, each.body)
		first := c.want(t, 200, http.MethodGet, each.read, nil)
		reply := c.want(t, 409, http.MethodPost, each.create, each.body)
		same(t, each.what, text(reply, "error", "status"), "ALREADY_EXISTS")
		same(t, each.what, c.want(t, 200, http.MethodGet, each.read, nil), first)
	}
}

func TestANameThatWasDeletedCanBeMadeAgain(t *testing.T) {
	c := startProject(t, "again-project")
	metrics := "logging.googleapis.com/v2/projects/again-project/metrics"
	body := map[string]any{"name": "a-metric", "filter": "severity>=ERROR"}
	for range 2 {
		c.want(t, 200, http.MethodPost, metrics, body)
		listed, _ := c.want(t, 200, http.MethodGet, metrics, nil)["metrics"].([]any)
		same(t, "the metrics", len(listed), 1)
		c.want(t, 200, http.MethodDelete, metrics+"/a-metric", nil)
		listed, _ = c.want(t, 200, http.MethodGet, metrics, nil)["metrics"].([]any)
		same(t, "the metrics", len(listed), 0)
	}
}

func TestADeletedRoleIsKeptAndNotListed(t *testing.T) {
	c := startProject(t, "kept-roles-project")
	roles := "iam.googleapis.com/v1/projects/kept-roles-project/roles"
	for _, name := range []string{"first", "second"} {
		c.want(t, 200, http.MethodPost, roles, map[string]any{"roleId": name, "role": map[string]any{"title": name}})
	}
	c.want(t, 200, http.MethodDelete, roles+"/first", nil)
	same(t, "the first", c.want(t, 200, http.MethodGet, roles+"/first", nil)["deleted"], true)
	listed, _ := c.want(t, 200, http.MethodGet, roles+"?showDeleted=false", nil)["roles"].([]any)
	same(t, "the roles", len(listed), 1)
	same(t, "its name", within(listed[0].(map[string]any), "name"), "projects/kept-roles-project/roles/second")
}

func TestTheDashboardsOfAProjectAreListed(t *testing.T) {
	c := startProject(t, "boards-project")
	startProject(t, "other-boards-project")
	dashboards := "monitoring.googleapis.com/v1/projects/boards-project/dashboards"
	list := func(address string) []any {
		found, _ := c.want(t, 200, http.MethodGet, address, nil)["dashboards"].([]any)
		return found
	}
	body := map[string]any{"displayName": "TPU provisioner: a", "gridLayout": map[string]any{}}
	made := c.want(t, 200, http.MethodPost, dashboards, body)
	c.want(t, 200, http.MethodPost, "monitoring.googleapis.com/v1/projects/other-boards-project/dashboards", body)
	same(t, "the dashboards", list(dashboards), []any{made})

	c.want(t, 200, http.MethodDelete, "monitoring.googleapis.com/v1/"+text(made, "name"), nil)
	same(t, "the dashboards", len(list(dashboards)), 0)
}

func TestASubscriptionIsSetBackOnlyIfItExists(t *testing.T) {
	c := startProject(t, "seek-project")
	resources := "pubsub.googleapis.com/v1/projects/seek-project/"
	c.want(t, 200, http.MethodPut, resources+"topics/letters", map[string]any{})
	c.want(t, 200, http.MethodPut, resources+"subscriptions/letters", map[string]any{"topic": "projects/seek-project/topics/letters"})
	since := map[string]any{"time": "2026-01-01T00:00:00Z"}
	same(t, "the answer", c.want(t, 200, http.MethodPost, resources+"subscriptions/letters:seek", since), map[string]any{})
	c.want(t, 404, http.MethodPost, resources+"subscriptions/another:seek", since)

	c.want(t, 200, http.MethodDelete, resources+"subscriptions/letters", nil)
	c.want(t, 404, http.MethodPost, resources+"subscriptions/letters:seek", since)
}

func TestAnUploadIsReadWithEachClientsBoundary(t *testing.T) {
	for _, quoted := range []string{`'==='`, `"==="`} { // gcloud's, and the standard's
		body := "--===\r\nContent-Type: application/json\r\n\r\n{\"name\": \"a\"}\r\n--===\r\nContent-Type: text/plain\r\n\r\nx\r\n--===--\r\n"
		more, content, err := readParts("multipart/related; boundary="+quoted, []byte(body))
		same(t, quoted, err, nil)
		same(t, quoted, more, map[string]any{"name": "a", "contentType": "text/plain"})
		same(t, quoted, string(content), "x")
	}
}
