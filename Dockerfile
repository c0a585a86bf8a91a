# docs/containers.md: the size of the image, its folders, secrets, and how it stops.
FROM python:3.12 AS build
WORKDIR /build
COPY requirements/light.txt requirements/
RUN pip install --no-cache-dir --no-deps --require-hashes --no-compile --prefix /install --requirement requirements/light.txt
COPY . .
RUN pip install --no-cache-dir --no-deps --no-compile --prefix /install .
# after the installation, because each layer adds to the image only what the last stage copies
RUN sh deploy/image/trim.sh /install/lib/python3.12/site-packages \
    && python -m compileall -q --invalidation-mode unchecked-hash -s /install -p /usr/local /install/lib

FROM python:3.12-slim
COPY --from=build /install /usr/local
# a fixed number, so that Kubernetes can see that it is not root
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/commonplace commonplace
RUN install --directory --owner commonplace /var/lib/commonplace-files
USER 10001
# All that is written is below COMMONPLACE_HOME and /tmp, so the rest can be read-only.
ENV COMMONPLACE_IN_CONTAINER=1 COMMONPLACE_HOME=/var/lib/commonplace COMMONPLACE_HOST=0.0.0.0 DRAIN_DELAY_S=5 PYTHONDONTWRITEBYTECODE=1
VOLUME /var/lib/commonplace
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=120s CMD ["python", "-m", "memory_project.probe"]
CMD ["commonplace", "up", "--no-demo"]
