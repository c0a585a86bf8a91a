FROM python:3.12-slim
RUN useradd --system --create-home --home-dir /var/lib/commonplace commonplace
RUN install --directory --owner commonplace /var/lib/commonplace-files
COPY requirements/light.txt /tmp/
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement /tmp/light.txt
COPY . /src
RUN pip install --no-cache-dir --no-deps /src && rm -r /src
USER commonplace
ENV COMMONPLACE_HOME=/var/lib/commonplace COMMONPLACE_HOST=0.0.0.0
VOLUME /var/lib/commonplace
EXPOSE 8000
CMD ["commonplace", "up", "--no-demo"]
